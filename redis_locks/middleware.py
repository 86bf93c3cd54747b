"""Middleware: a deadline for all that a request waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from redis_locks.conf.settings import get_settings
from redis_locks.locks.timeouts import lock_deadline


@sync_and_async_middleware
def request_deadline(
    get_response: Callable[[HttpRequest], Any],
) -> Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]:
    """Middleware, sync or async: all waits for locks of a request end after REQUEST_DEADLINE seconds.

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
