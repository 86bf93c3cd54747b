"""What Django REST framework makes of a lock that a view did not get: errors of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.views import APIView

from redis_locks.decorators.answers import answer_to
from redis_locks.exceptions import LockError


def api_error(error: LockError, conflict_status: int | None = None) -> APIException:
    """Return the framework's error for one of `answers.ANSWERED`.

    The text of `error` does not reach the client.
    """
    answer = answer_to(error, conflict_status)
    made = APIException(answer.message, answer.code)
    made.status_code = answer.status
    made.wait = answer.retry_after  # The framework turns it into Retry-After.
    return made


def api_response(
    error: APIException,
    cause: LockError,
    view: Any,
    request: HttpRequest,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> HttpResponseBase:
    """Return what a view of the framework answers to `error`, in the form that the client asks for.

    Args:
        error: The error of the API.
        cause: What led to it.
        view: An instance of its class, or the function that ``as_view()`` or ``api_view`` made.
        request: Django's request.
        args: The positional arguments from the URL.
        kwargs: The named ones.
    """
    if not isinstance(view, APIView):
        function, view = view, view.cls(**view.initkwargs)
        view.setup(request, *args, **kwargs)
        view.action_map = getattr(function, "actions", {})  # a viewset asks for it

    def initial(_request: object, *_args: object, **given: object) -> NoReturn:
        view.format_kwarg = view.get_format_suffix(**given)
        raise error from cause

    view.initial = initial
    # Not the view's own, which may be what a lock decorates.
    response: HttpResponseBase = APIView.dispatch(view, request, *args, **kwargs)
    return response
