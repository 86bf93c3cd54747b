"""What is going on with one lock, and what can be done about it, in a few sentences.

The admin's page of a lock and `manage.py locks show` begin with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.resp import pack
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo, blockers
from redis_locks.inspection.blockers import Node
from redis_locks.inspection.cases import (
    RECENT,
    Case,
    held_case,
    is_convoy,
    is_renewed,
    newcomer_waits,
)
from redis_locks.inspection.localized_times import duration, latency
from redis_locks.inspection.replies import MOST_LISTED
from redis_locks.inspection.termination import successor
from redis_locks.statistics.usual import Usual, recent
from redis_locks.values.identity import COOLDOWN
from redis_locks.values.keys import QUEUED
from redis_locks.values.text import printable

LISTENS_FROM = 2.0
"""Seconds from which the process of a hold must be listening. It begins to after 0.05 s."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A part of a sentence.

    With `ago`, it is the text of a time in seconds that goes on. With `lock`, it is a lock's name.
    """

    text: str
    ago: float | None = None
    lock: str | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """What is going on with a lock.

    Attributes:
        case: Which of the cases it is.
        facts: Who holds it, for how long, and who waits, as one text in parts.
        advice: What the case means, and what to do about it. Empty if there is nothing to do.
    """

    case: Case
    facts: tuple[Phrase, ...]
    advice: str

    @property
    def text(self) -> str:
        """The facts as text."""
        return "".join(span.text for span in self.facts)


def gone_of(lock: LockInfo, *, using: str | None = None) -> HolderInfo | None:
    """Return the holder whose process is not connected.

    None: there is none, or that cannot be told.

    Of many holders it looks at some: those whose leases end first. Blocks for a round trip.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    backend = backend_for(using)
    asked = [each for each in _soonest(lock) if each.lease and each.held_for >= LISTENS_FROM]
    # The nodes of a cluster do not know who listens at others.
    if backend.in_cluster or not asked:
        return None
    channels = [backend.holder_channel(holder.token).encode() for holder in asked]
    ask = pack((b"PUBSUB", b"NUMSUB", *channels))
    keys = backend.keys(lock.name)

    (reply,) = run_blocking(backend.ask(backend.driver, lambda link: link.read([ask], keys)))
    # An error, if this user may not ask.
    listeners = reply[1::2] if isinstance(reply, list) else []
    gone = [holder for holder, count in zip(asked, listeners, strict=False) if not count]
    return max(gone, key=lambda holder: holder.held_for, default=None)


def _soonest(lock: LockInfo) -> list[HolderInfo]:
    """Return the holders that a summary knows of: those whose leases end first."""
    return sorted(lock.holders, key=lambda holder: holder.lease_left)[:MOST_LISTED]


class Surroundings(NamedTuple):
    """What the story of a lock needs beside the lock.

    Attributes:
        usual: How long it is held as a rule, if that is known.
        gone: The holder whose process is not connected; None: there is none, or that cannot be
            told.
        roots: Who blocks whom around it, as trees.
        whole: Whether all locks were looked at for these.
        broken: Seconds since a wait for the lock was ended to break a deadlock; None: none was, or
            long ago.
    """

    usual: Usual | None = None
    gone: HolderInfo | None = None
    roots: tuple[Node, ...] = ()
    whole: bool = True
    broken: float | None = None


_NOTHING_AROUND = Surroundings()


def surroundings(lock: LockInfo, *, using: str | None = None) -> Surroundings:
    """Return what the story of a lock needs.

    Blocks for some round trips, more if somebody waits for it.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    lately = recent(using=using)
    usual, since = lately.usual(lock.name), lately.deadlocked(lock.at - RECENT).get(lock.name)
    gone = gone_of(lock, using=using)
    roots, whole = blockers.around(lock, using=using) if lock.waiting else ([], True)
    broken = None if since is None else max(0.0, lock.at - since)
    return Surroundings(usual, gone, tuple(roots), whole, broken)


def tell(lock: LockInfo, around: Surroundings = _NOTHING_AROUND) -> Story:
    """Return the story of a lock with these surroundings."""
    if not (lock.holders or lock.waiting):
        return Story(Case.FREE, (Phrase(_("Nobody holds this lock or waits for it.")),), "")
    facts = tuple(_facts(lock, around.usual))
    if around.broken is not None:
        text = _("A deadlock at this lock was broken %(time)s ago.")
        facts = (*facts, Phrase(" "), *filled(text, time=_since(around.broken)))
    if any(root.has_deadlock for root in around.roots):
        return Story(Case.DEADLOCK, facts, str(_DEADLOCK))
    if not lock.holders:
        return Story(Case.HAND_OFF, facts, str(_HAND_OFF))
    return Story(*_held_case(lock, facts, around.usual, around.gone))


def _held_case(
    lock: LockInfo, facts: tuple[Phrase, ...], usual: Usual | None, gone: HolderInfo | None
) -> tuple[Case, tuple[Phrase, ...], str]:
    holder = longest(lock)
    if lock.name.startswith(QUEUED) or holder.label.startswith(COOLDOWN):
        text = _QUEUED if lock.name.startswith(QUEUED) else _COOLDOWN
        return Case.NORMAL, facts, text % {"left": duration(holder.lease_left)}
    holder = gone or _stale_of(lock) or holder
    end = f"{_ends(lock, holder) % {'left': duration(holder.lease_left)}} {_FORCE}"
    times = holder.held_for, holder.lease_left, holder.lease
    case = held_case(*times, usual=usual, is_gone=gone is not None)
    if case is Case.GONE:
        who = _GONE if lock.holding == 1 else _ONE_GONE % {"who": runs(holder)}
        return case, facts, f"{who} {end}"
    if case is Case.STALE:
        return case, facts, f"{_STALE} {end}"
    if case is Case.LONG:
        where = {"pid": holder.pid, "host": printable(holder.host)}
        return case, facts, f"{_LONG % where} {_FORCE}"
    if usual and is_convoy(lock.waiting, lock.holding, holder.held_for, usual):
        time = newcomer_waits(lock.waiting, lock.holding, usual)
        return Case.CONVOY, facts, _CONVOY % {"time": duration(time)}
    return case, facts, ""


def _stale_of(lock: LockInfo) -> HolderInfo | None:
    """Return the holder whose lease ends first, if that is not being renewed."""
    holder = _soonest(lock)[0]
    return None if is_renewed(holder.lease_left, holder.lease) else holder


def _ends(lock: LockInfo, holder: HolderInfo) -> str:
    if len(lock.holders) > 1 and not successor(lock, [holder.token]):
        return _("The lease ends in %(left)s. The other holds stay.")
    if lock.waiting:
        return _("The lease ends in %(left)s, and then the first waiter gets the lock.")
    return _("The lease ends in %(left)s, and then the lock is free.")


_HAND_OFF = gettext_lazy(
    "This takes a moment. If the first waiter has died, the next one gets the lock within some "
    "seconds."
)
_DEADLOCK = gettext_lazy(
    "This is a deadlock: each waits for a lock that another one holds. "
    "One of the waits ends by itself within some seconds, unless DEADLOCK_TIMEOUT is None. "
    "To end it now, cancel one of the waits."
)
_QUEUED = gettext_lazy(
    "A task that is queued or runs holds this lock. It is free when the task begins or ends, or in "
    "%(left)s. A force-release lets the task be queued again."
)
_COOLDOWN = gettext_lazy(
    "Nobody works under this lock. It stays closed for another %(left)s, as its at_least says. A "
    "force-release opens it."
)
_GONE = gettext_lazy(
    "The holder's process is not connected: it has died, its network is cut, or it has detached "
    "the hold."
)
_ONE_GONE = gettext_lazy(
    "One of the holders, %(who)s, is not connected: its process has died, its network is cut, or "
    "it has detached the hold."
)
_STALE = gettext_lazy(
    "The lease is not being renewed: the process is paused or blocked, or the hold has renew=False."
)
_LONG = gettext_lazy(
    "The hold lasts far longer than usual. See what process %(pid)s on %(host)s does before you "
    "end it."
)
_CONVOY = gettext_lazy(
    "Holds are as usual: demand is above what the lock can serve. A newcomer waits about %(time)s. "
    "Consider a shorter section, sharding the name, or a semaphore."
)
_FORCE = gettext_lazy(
    "A force-release ends the hold now. A holder that still runs may go on working: "
    "only fencing tokens stop its late writes."
)


def longest(lock: LockInfo) -> HolderInfo:
    """Return the holder that has held the lock for longest."""
    return max(lock.holders, key=lambda holder: holder.held_for)


def renewed_ago(holder: HolderInfo) -> float | None:
    """Return how many seconds ago the lease was renewed last.

    None if it never was, as far as one can see.
    """
    ago = holder.lease - holder.lease_left
    return ago if holder.lease and 0 <= ago < holder.held_for - 0.5 else None


def runs(party: HolderInfo | WaiterInfo) -> str:
    """Return what a party runs, and where."""
    label, host = printable(party.label) or pgettext("locks", "unknown"), printable(party.host)
    if not host:
        return _("%(label)s on an unknown host") % {"label": label}
    return _("%(label)s on %(host)s") % {"label": label, "host": host}


def _facts(lock: LockInfo, usual: Usual | None) -> Iterator[Phrase]:
    if lock.holders:
        yield from _held(lock, usual)
    else:
        yield Phrase(_("Free, and being handed to the first waiter."))
    yield Phrase(" ")
    if not lock.waiting:
        yield Phrase(_("Nobody waits."))
        return
    count = Phrase(number_format(lock.waiting, force_grouping=True))
    if not lock.waiters:
        yield from filled(
            ngettext("%(count)s waiter.", "%(count)s waiters.", lock.waiting), count=count
        )
        return
    yield from filled(
        ngettext(
            "%(count)s waiter, for %(time)s.",
            "%(count)s waiters, the first for %(time)s.",
            lock.waiting,
        ),
        count=count,
        time=_since(max(waiter.waited for waiter in lock.waiters)),
    )


def _held(lock: LockInfo, usual: Usual | None) -> Iterator[Phrase]:
    holder = longest(lock)
    yield from filled(
        ngettext(
            "Held for %(time)s by %(who)s.",
            "Held by %(count)s, the longest for %(time)s by %(who)s.",
            lock.holding,
        ),
        count=Phrase(number_format(lock.holding, force_grouping=True)),
        time=_since(holder.held_for),
        who=Phrase(runs(holder)),
    )
    if usual:
        times = {"p50": latency(usual.p50), "p99": latency(usual.p99)}
        yield Phrase(" " + _("Usual: %(p50)s (p99 %(p99)s).") % times)
    ago = renewed_ago(holder)
    if ago is not None:
        yield Phrase(" ")
        yield from filled(_("Renewed %(time)s ago."), time=_since(ago))
    elif not is_renewed(holder.lease_left, holder.lease):
        yield Phrase(" " + _("Never renewed."))


def _since(ago: float) -> Phrase:
    return Phrase(duration(ago), ago)


_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def filled(sentence: str, **values: Phrase) -> Iterator[Phrase]:
    """Yield a translated sentence in parts.

    Its words, and so the places of the values, are the language's.
    """
    for place, part in enumerate(_PLACEHOLDER.split(sentence)):
        if part:
            yield values[part] if place % 2 else Phrase(part)
