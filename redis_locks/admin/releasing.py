"""Force-release: the holds that somebody was shown, with a reason, and with an entry in the log."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.http import Http404, HttpRequest

from redis_locks import inspection
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import HolderInfo, LockInfo
from redis_locks.models import Lock
from redis_locks.text import printable

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Lock]
else:
    _ModelAdmin = admin.ModelAdmin


def existing(name: str) -> LockInfo | None:
    """Return a lock, or None if nobody holds it or waits for it; blocks for a round trip.

    Raises:
        Http404: The name cannot name a lock.
        LockBackendError: Redis could not be asked.
    """
    try:
        return inspection.lock(name)
    except ValueError as error:
        raise Http404(str(error)) from error


def release_shown(
    model_admin: _ModelAdmin, request: HttpRequest, name: str, reason: str, shown: Collection[str]
) -> None:
    """End those holds that the user was shown, tell the user, and write who and why to the log.

    Whoever holds the lock since then is left alone.

    Args:
        model_admin: The admin of locks, which writes the log.
        request: The user's request; messages go with it.
        name: The lock.
        reason: Why, as the user gave it.
        shown: The tokens of the holds that the user was shown.

    Raises:
        Http404: The name cannot name a lock.
        LockBackendError: Redis could not be asked; the log says that the outcome is not known.
    """
    lock = existing(name)
    holds = [hold for hold in lock.holders if hold.token in shown] if lock else []
    if not holds:
        messages.warning(request, "The hold that you were shown has ended; nothing was released.")
        return
    by = " and ".join(map(_described, holds))
    why = f"held by {by}. Reason: {reason}"
    # Before it is done: there may be an entry without a release, but never the reverse.
    entry = model_admin.log_change(request, Lock(name=name), f"Force-released; {why}")
    try:
        ended = inspection.release(name, tokens=[hold.token for hold in holds])
    except LockBackendError:
        entry.change_message = (
            f"Tried to force-release, but Redis did not answer: it may have been done or not; {why}"
        )
        entry.save(update_fields=["change_message"])
        raise
    if not ended:
        entry.change_message = f"Tried to force-release, but the hold ended by itself; {why}"
        entry.save(update_fields=["change_message"])
        messages.warning(request, "The hold had just ended by itself; nothing was released.")
        return
    learns = max(hold.lease for hold in holds) / 3
    messages.success(
        request,
        f"Force-released; it was held by {by}. The holder learns of it at its next renewal, "
        f"within {learns:.1f} s; until then it goes on working.",
    )


def _described(hold: HolderInfo) -> str:
    return f"{printable(str(hold))} with fencing token {hold.fencing_token}"
