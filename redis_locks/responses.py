"""What a view answers while somebody else holds its lock."""

from __future__ import annotations

import math
from typing import cast

from django.http import HttpRequest, HttpResponse

from redis_locks.conf import get_settings
from redis_locks.exceptions import LockNotAvailable

MAX_RETRY_AFTER = 60
"""Longest Retry-After, in seconds; most holds end long before their lease does."""


def conflict_response(error: LockNotAvailable, status: int | None = None) -> HttpResponse:
    """The answer to a request that did not get its lock, with Retry-After.

    Args:
        error: Why it did not. Neither the lock's name nor its holder is told to the client.
        status: The HTTP status; None is REDIS_LOCKS["CONFLICT_STATUS"].
    """
    response = HttpResponse(
        "Somebody else is changing this at the moment. Please try again.\n",
        status=get_settings().conflict_status if status is None else status,
        content_type="text/plain; charset=utf-8",
    )
    seconds = math.ceil(error.retry_after or 1)
    response["Retry-After"] = str(min(max(1, seconds), MAX_RETRY_AFTER))
    return response


def request_of(args: tuple[object, ...]) -> HttpRequest | None:
    """The request, if these are the arguments of a view: the first one, or after ``self``."""
    for value in args[:2]:
        # By type(): isinstance() would make a lazy object (a user) fetch what it stands for.
        if issubclass(type(value), HttpRequest):
            return cast("HttpRequest", value)
        # Django REST framework passes a request of its own around Django's.
        inner = getattr(value, "__dict__", {}).get("_request")
        if isinstance(inner, HttpRequest):
            return inner
    return None


def label_of(request: HttpRequest) -> str:
    """What a holder that serves this request does, for people."""
    return f"{request.method} {request.path}"
