"""Force-release and cancel: what somebody was shown, with a reason, and with an entry in the log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from django.contrib import admin, messages
from django.http import Http404, HttpRequest

from redis_locks import inspection
from redis_locks.admin.table_rows import HolderRow, PartyRow
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.models import Lock
from redis_locks.values.text import printable

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Lock]
else:
    _ModelAdmin = admin.ModelAdmin


Party = TypeVar("Party", HolderInfo, WaiterInfo)


class Ending(ABC, Generic[Party]):
    """What a user may end, how that is done, and how it is called."""

    view: ClassVar[str]
    """The name of its page and of its template."""
    permission: ClassVar[str]
    noun: ClassVar[str]
    verb: ClassVar[str]
    done: ClassVar[str]
    who: ClassVar[str]
    """What the log says before the parties."""
    nothing: ClassVar[str]
    """What the user is told if there is none to be shown."""

    @abstractmethod
    def choose(self, lock: LockInfo, tokens: Collection[str]) -> Sequence[Party]:
        """Return the parties to ask about, of whom the user has chosen some by their tokens."""

    @abstractmethod
    def row(self, party: Party, at: float) -> HolderRow | PartyRow:
        """Return a party as it is shown, in a snapshot that was read at `at`."""

    @abstractmethod
    def end(self, name: str, parties: Sequence[Party]) -> int:
        """End them, and return how many had not ended by themselves."""

    @abstractmethod
    def describe(self, party: Party) -> str:
        """Return a party as one line for the log."""

    @abstractmethod
    def outcome(self, parties: Sequence[Party]) -> str:
        """Return what happens now, for the user."""


class Release(Ending[HolderInfo]):
    """Holds, by force-release: all of a lock."""

    view = "release"
    permission = "redis_locks.release_lock"
    noun, verb, done, who = "hold", "force-release", "Force-released", "held by"
    nothing = "Nobody holds this lock: there is nothing to release."

    def choose(self, lock: LockInfo, tokens: Collection[str]) -> Sequence[HolderInfo]:
        """Return all holds."""
        return lock.holders

    def row(self, party: HolderInfo, at: float) -> HolderRow:
        """Return the hold with its lease."""
        return HolderRow.of(party, at)

    def end(self, name: str, parties: Sequence[HolderInfo]) -> int:
        """Force-release them."""
        return inspection.force_release(name, tokens=[hold.token for hold in parties]).ended

    def describe(self, party: HolderInfo) -> str:
        """Return the holder, and the fencing token that tells its writes."""
        return f"{printable(str(party))} with fencing token {party.fencing_token}"

    def outcome(self, parties: Sequence[HolderInfo]) -> str:
        """Return when the holders learn of it."""
        learns = max(hold.lease for hold in parties) / 3
        return (
            "The holder learns of it at once; one that cannot be told, at its next renewal, "
            f"within {learns:.1f} s, and until then it goes on working."
        )


class Cancel(Ending[WaiterInfo]):
    """Waits, by cancel: those that the user chooses."""

    view = "cancel"
    permission = "redis_locks.cancel_waiter"
    noun, verb, done, who = "wait", "cancel", "Cancelled", "waited for by"
    nothing = "The wait that you were shown has ended: there is nothing to cancel."

    def choose(self, lock: LockInfo, tokens: Collection[str]) -> Sequence[WaiterInfo]:
        """Return the chosen waits."""
        return [waiter for waiter in lock.waiters if waiter.token in tokens]

    def row(self, party: WaiterInfo, at: float) -> PartyRow:
        """Return the wait."""
        return PartyRow.of(party, at)

    def end(self, name: str, parties: Sequence[WaiterInfo]) -> int:
        """Cancel them."""
        return sum(map(inspection.cancel, parties))

    def describe(self, party: WaiterInfo) -> str:
        """Return the waiter."""
        return printable(str(party))

    def outcome(self, parties: Sequence[WaiterInfo]) -> str:
        """Return when the waiters learn of it."""
        return "The waiter gets an error that says so, at once."


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


def end_shown(
    ending: Ending[Party],
    model_admin: _ModelAdmin,
    request: HttpRequest,
    name: str,
    reason: str,
    shown: Collection[str],
) -> None:
    """End what the user was shown, tell the user, and write who and why to the log.

    Whoever holds the lock since then, or waits for it, is left alone.

    Args:
        ending: What to end, and how.
        model_admin: The admin of locks, which writes the log.
        request: The user's request; messages go with it.
        name: The lock.
        reason: Why, as the user gave it.
        shown: The tokens of the holds or waits that the user was shown.

    Raises:
        Http404: The name cannot name a lock.
        LockBackendError: Redis could not be asked; the log says that the outcome is not known.
    """
    lock, past = existing(name), ending.done.lower()
    there = ending.choose(lock, shown) if lock else []
    parties = [party for party in there if party.token in shown]
    if not parties:
        messages.warning(
            request, f"The {ending.noun} that you were shown has ended; nothing was {past}."
        )
        return
    by = " and ".join(map(ending.describe, parties))
    why = f"{ending.who} {by}. Reason: {reason}"
    # Before it is done: there may be an entry without an end, but never the reverse.
    entry = model_admin.log_change(request, Lock(name=name), f"{ending.done}; {why}")
    tried = f"Tried to {ending.verb}"
    try:
        ended = ending.end(name, parties)
    except LockBackendError:
        entry.change_message = (
            f"{tried}, but Redis did not answer: it may have been done or not; {why}"
        )
        entry.save(update_fields=["change_message"])
        raise
    if not ended:
        entry.change_message = f"{tried}, but the {ending.noun} ended by itself; {why}"
        entry.save(update_fields=["change_message"])
        messages.warning(
            request, f"The {ending.noun} had just ended by itself; nothing was {past}."
        )
        return
    messages.success(request, f"{ending.done}; it was {ending.who} {by}. {ending.outcome(parties)}")
