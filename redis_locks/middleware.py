"""Middleware: a deadline for all that a request waits for, and answers where it gets no lock."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

from redis_locks.conf.settings import get_settings
from redis_locks.decorators.answers import is_answered
from redis_locks.decorators.responses import respond
from redis_locks.drivers.base import LinkBroken
from redis_locks.exceptions import LockBackendError
from redis_locks.locks.timeouts import lock_deadline
from redis_locks.values.keys import UnusableName

logger = logging.getLogger("redis_locks")


@sync_and_async_middleware
def request_deadline(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Middleware, sync or async.

    All waits for locks of a request end after REQUEST_DEADLINE seconds.

    They count from here on, so write it before what takes locks. What a streaming response does
    while it is sent is not bounded.
    """
    if iscoroutinefunction(get_response):

        async def in_async(request: HttpRequest) -> HttpResponseBase:
            with lock_deadline(get_settings().request_deadline):
                response: HttpResponseBase = await get_response(request)
                return response

        return in_async

    def in_sync(request: HttpRequest) -> HttpResponseBase:
        with lock_deadline(get_settings().request_deadline):
            response: HttpResponseBase = get_response(request)
            return response

    return in_sync


class lock_responses(MiddlewareMixin):  # noqa: N801 - written in settings, beside `request_deadline`
    """Middleware, sync or async.

    What locks raise anywhere under a view is answered, not a status of 500.

    Contention, a deadlock and an optimistic transaction that met too many others are answered with
    CONFLICT_STATUS, a server that cannot be asked with 503. A name that is too long, or that cannot
    be a name, is answered with 404, as it comes from the URL. The other two answers have
    Retry-After and are HTML, plain text or JSON, as the client asks; views of Django REST framework
    use its renderers. The templates are ``redis_locks/locked.html`` and ``unavailable.html``, and
    the same with ``.txt`` and ``.json``.

    A view's error rolls its transaction back before it is answered. What it did outside of one
    stays done. An error with `may_be_done` is left to Django: a client that came back would repeat
    the work.
    """

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """Answer one of the errors of locks, and leave others to Django."""
        if isinstance(exception, UnusableName):
            raise Http404(str(exception)) from exception
        if not is_answered(exception):
            return None
        # Of a server that is away, the log has a line when that begins, and one when it ends.
        if isinstance(exception, LockBackendError) and not isinstance(
            exception.__cause__, LinkBroken
        ):
            logger.error("%s %s is answered with 503: %s", request.method, request.path, exception)
        match = request.resolver_match
        if match is None:
            return respond(exception, request)
        return respond(exception, request, view=match.func, args=match.args, kwargs=match.kwargs)
