"""What a view answers while another holder has its lock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse

from redis_locks.conf.settings import get_settings
from redis_locks.exceptions import LockBackendError, LockNotAvailable

if TYPE_CHECKING:
    from redis_locks.inspection import LockInfo

MESSAGE = "Somebody else is changing this at the moment. Please try again."

MAX_RETRY_AFTER = 60
"""Longest Retry-After, in seconds; most holds end long before their lease does."""

MAX_LABEL = 200
"""Characters of a request that its hold or wait keeps in Redis."""


def note_queue(error: LockNotAvailable, names: Sequence[str], using: str | None) -> None:
    """Complete ``error`` with how many wait in the longest of the queues; blocks for a round trip.

    Leaves it as it is if Redis cannot be asked: it is a hint only.
    """
    # Not above: most processes never inspect a lock, and to import this takes Django's start a while.
    from redis_locks import inspection

    with suppress(LockBackendError):
        _note(error, inspection.locks(using=using, names=names))


async def anote_queue(error: LockNotAvailable, names: Sequence[str], using: str | None) -> None:
    """Complete ``error`` with how many wait in the longest of the queues; see `note_queue`."""
    from redis_locks import inspection  # not above, as in `note_queue`

    with suppress(LockBackendError):
        _note(error, await inspection.alocks(using=using, names=names))


def _note(error: LockNotAvailable, infos: Iterable[LockInfo]) -> None:
    error.waiting = max((info.waiting for info in infos), default=0)


def retry_after(error: LockNotAvailable) -> int:
    """In how many seconds to try again, from 1 to `MAX_RETRY_AFTER`.

    The holder may keep the lock until its lease ends, and each waiter after it as long again.
    """
    seconds = (error.retry_after or 0) * (1 + (error.waiting or 0))
    return min(max(1, math.ceil(seconds)), MAX_RETRY_AFTER)


def conflict_response(error: LockNotAvailable, status: int | None = None) -> HttpResponse:
    """The answer to a request that did not get its lock, with Retry-After.

    Args:
        error: Why it did not. Neither the lock's name nor its holder is told to the client.
        status: The HTTP status; None is REDIS_LOCKS["CONFLICT_STATUS"].
    """
    response = HttpResponse(
        f"{MESSAGE}\n",
        status=get_settings().conflict_status if status is None else status,
        content_type="text/plain; charset=utf-8",
    )
    response["Retry-After"] = str(retry_after(error))
    return response


def request_of(args: tuple[object, ...]) -> HttpRequest | None:
    """The request, if these are the arguments of a view: the first one, or after ``self``."""
    for value in args[:2]:
        # By type(): isinstance() would make a lazy object (a user) fetch what it stands for.
        if issubclass(type(value), HttpRequest):
            return value  # type: ignore[return-value]
        # Django REST framework passes a request of its own around Django's.
        inner = getattr(value, "__dict__", {}).get("_request")
        if isinstance(inner, HttpRequest):
            return inner
    return None


def label_of(request: HttpRequest) -> str:
    """What a holder that serves this request does, for people; the client may have written a lot."""
    return f"{request.method} {request.path}"[:MAX_LABEL]
