"""What a client is told if the lock is held, or its server cannot be asked; in whatever form."""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeGuard

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from redis_locks.conf.settings import get_settings
from redis_locks.exceptions import (
    DeadlockDetected,
    LockBackendError,
    LockError,
    LockNotAvailable,
    TooMuchContention,
)

CONFLICT_MESSAGE = _("Somebody else is changing this at the moment. Please try again.")
UNAVAILABLE_MESSAGE = _("This cannot be done safely at the moment. Please try again in a while.")

MAX_RETRY_AFTER = 60
"""Longest Retry-After, in seconds; most holds end long before their lease does."""

UNAVAILABLE_RETRY_AFTER = 5
"""Retry-After if the server of the locks cannot be asked: about what a fail-over takes."""

ANSWERED: Final = (LockNotAvailable, DeadlockDetected, TooMuchContention, LockBackendError)
"""The errors that a later request may well not meet; but see `is_answered`."""


class HttpAnswer(NamedTuple):
    """What to tell the client. Neither the lock's name nor its holder is part of it."""

    code: str
    """"locked" or "unavailable": also the name of the templates."""
    status: int
    message: str | Promise
    retry_after: int
    """In seconds."""


def is_answered(error: BaseException) -> TypeGuard[LockError]:
    """Whether to answer `error` with Retry-After.

    Not if the work may be done: the client would do it twice.
    """
    return isinstance(error, ANSWERED) and not error.may_be_done


def answer_to(error: LockError, conflict_status: int | None = None) -> HttpAnswer:
    """Return what to tell the client of one of the errors in `ANSWERED`.

    Args:
        error: Why the view did not get its lock.
        conflict_status: The HTTP status of contention; None is REDIS_LOCKS["CONFLICT_STATUS"].
    """
    if isinstance(error, LockBackendError):
        # Another version of this package knows until when it holds the lock.
        seconds = getattr(error, "retry_after", 0.0) or UNAVAILABLE_RETRY_AFTER
        return HttpAnswer("unavailable", 503, UNAVAILABLE_MESSAGE, _whole_seconds(seconds))
    status = get_settings().conflict_status if conflict_status is None else conflict_status
    return HttpAnswer("locked", status, CONFLICT_MESSAGE, retry_after(error))


def retry_after(error: LockError) -> int:
    """Return in how many seconds to try again after contention, from 1 to `MAX_RETRY_AFTER`.

    The holder may keep the lock until its lease ends, and each waiter after it as long again.
    """
    left = getattr(error, "retry_after", None) or 0
    return _whole_seconds(left * (1 + (getattr(error, "waiting", None) or 0)))


def _whole_seconds(seconds: float) -> int:
    return min(max(1, math.ceil(seconds)), MAX_RETRY_AFTER)
