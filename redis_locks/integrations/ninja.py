"""django-ninja: what locks raise anywhere in an operation, as an answer of the API."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse

from redis_locks.decorators.answers import ANSWERED, answer_to, is_answered
from redis_locks.exceptions import LockError
from redis_locks.values.keys import UnusableName

__all__ = ["answer_locks"]


def answer_locks(api: Any) -> None:
    """Have a ``NinjaAPI`` answer what locks raise in its operations, sync and async.

    Contention is answered with CONFLICT_STATUS (423), a server that cannot be asked with 503, both
    with Retry-After. A text that cannot be a lock's name is answered with 404. Call it once for
    each API.

    Raises:
        TypeError: `api` is no NinjaAPI.
    """
    if not hasattr(api, "add_exception_handler"):
        raise TypeError(f"api must be a NinjaAPI, not {api!r}: its routers answer as it does")
    for kind in ANSWERED:
        api.add_exception_handler(kind, partial(_answer, api))
    api.add_exception_handler(UnusableName, partial(_not_found, api))


def _answer(api: Any, request: HttpRequest, error: LockError) -> HttpResponse:
    if not is_answered(error):
        raise error
    answer = answer_to(error)
    response: HttpResponse = api.create_response(
        request, {"detail": str(answer.message)}, status=answer.status
    )
    response["Retry-After"] = str(answer.retry_after)
    return response


def _not_found(api: Any, request: HttpRequest, _: UnusableName) -> HttpResponse:
    response: HttpResponse = api.create_response(request, {"detail": "Not Found"}, status=404)
    return response
