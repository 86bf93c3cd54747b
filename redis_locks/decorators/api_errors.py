"""What Django REST framework makes of a lock that a view did not get: errors of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.views import APIView

from redis_locks.conf.settings import get_settings
from redis_locks.decorators.answers import (
    CONFLICT_MESSAGE,
    UNAVAILABLE_MESSAGE,
    answer_to,
)
from redis_locks.exceptions import LockError


class LockedAPIException(APIException):  # type: ignore[misc]  # has no types
    """Answers with REDIS_LOCKS["CONFLICT_STATUS"] (423) and, for an `error`, with Retry-After.

    Args:
        error: Why the lock was not available; None if that is not known. Its text, which names the
            lock, does not reach the client.
        detail: The text for the client; None is a general one.
        code: The framework's error code; None is "locked".
    """

    default_detail = CONFLICT_MESSAGE
    default_code = "locked"

    def __init__(
        self, error: LockError | None = None, detail: object = None, code: str | None = None
    ) -> None:
        super().__init__(detail, code)
        self.status_code = get_settings().conflict_status
        # The framework turns it into Retry-After.
        self.wait = None if error is None else answer_to(error).retry_after


class LockUnavailableAPIException(APIException):  # type: ignore[misc]  # has no types
    """Answers with 503 and Retry-After: the server of the locks cannot be asked.

    Args:
        error: What it said; its text does not reach the client.
        detail: The text for the client; None is a general one.
        code: The framework's error code; None is "unavailable".
    """

    status_code = 503
    default_detail = UNAVAILABLE_MESSAGE
    default_code = "unavailable"

    def __init__(self, error: LockError, detail: object = None, code: str | None = None) -> None:
        super().__init__(detail, code)
        self.wait = answer_to(error).retry_after


def api_error(error: LockError, conflict_status: int | None = None) -> APIException:
    """Return the framework's error for one of `answers.ANSWERED`."""
    answer = answer_to(error, conflict_status)
    if answer.code == "unavailable":
        return LockUnavailableAPIException(error)
    locked = LockedAPIException(error)
    locked.status_code = answer.status
    return locked


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
