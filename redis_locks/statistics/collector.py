"""Count in memory what happens to locks, and send it from a thread.

No lock waits for the statistics.

`events.dispatch` tells the collector what happens, and `inspection` tells it what operators end.
The collector sends each figure once. If the server is away, figures are kept, for a day at most,
and sent when it answers again. If the process is killed, those that it has are missing. Nothing is
counted twice.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, get_args

from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.events import dispatch
from redis_locks.events.dispatch import ENDS, FREQUENT, HoldNote, Pending
from redis_locks.exceptions import LockBackendError, Wait
from redis_locks.protocol import callers
from redis_locks.protocol.lock_events import Kind, LockEvent
from redis_locks.statistics.note import Note
from redis_locks.values import identity
from redis_locks.values.histogram import LAST

if TYPE_CHECKING:
    from redis_locks.protocol.plans import Plan
    from redis_locks.statistics.unsent import Unsent

logger = logging.getLogger("redis_locks")

INTERVAL = 5.0
"""Seconds after which a process sends its figures again."""

BATCH = 256
"""How many events are counted at a time, which takes half as long as counting each at once."""

_NO_NOTES = frozenset({"acquired", "released", "unavailable"})
"""The kinds whose events are not noted. `catch_up` notes the first two without an event; an outage
is nothing of one lock.
"""

_NOT_COUNTED = frozenset({"waiting", "unguarded", "detached", "adopted"})

LAST_CHANCE = 1.0
"""Seconds for which the end of a process waits for the last figures to be sent, at most."""

MOST_NAMES_KEPT = 2000
"""How many names have figures of their own; those of all other names are summed up."""

MOST_HOLDS_NOTED = 4000
"""How many holds that have begun are noted until they are sent."""

MOST_NAMES_SENT = 100
"""How many names are sent with figures of their own: those with most contention."""

REST: Final = ""
"""The name of the sum of all other locks; no lock has it."""

METRICS: Final[Mapping[Kind, str]] = {
    "acquired": "a",
    "contended": "c",
    "timed_out": "t",
    "lost": "l",
    "deadlock": "d",
    "unavailable": "u",
}
WAITS: Final = tuple(f"w{bucket}" for bucket in range(LAST + 1))
HOLDS: Final = tuple(f"h{bucket}" for bucket in range(LAST + 1))

Kept = Literal["frequent", "notable", "ended"]
"""The lists of notes of a lock: what happens often, what seldom does, and the ends of holds."""

FEW: Final = 5
"""How many events of the frequent kinds are noted of a lock until they are sent."""

_MOST_KEPT: Final[Mapping[Kept, int]] = {"frequent": FEW, "notable": 20}
"""How many notes a list has; that of the ends of holds has as many as HISTORY says."""

_NOTABLE: Final[tuple[Kept, ...]] = ("notable",)


def _metrics_of(kind: Kind, bucket: int | None) -> tuple[str, ...]:
    """Return the metrics that an event adds to; `bucket` is as for `Tally.count`."""
    metrics = (METRICS[kind],) if kind in METRICS else ()
    if kind in ENDS:
        return (*metrics, HOLDS[bucket or 0])
    if bucket is None or kind == "unavailable":  # that was a wait for the server
        return metrics
    return (*metrics, WAITS[bucket])


_METRICS: Final = {
    (kind, bucket): _metrics_of(kind, bucket)
    for kind in get_args(Kind)
    for bucket in (None, *range(LAST + 1))
}
"""The metrics that each event adds to, worked out once: each hold counts two events."""

_LISTS: Final[Mapping[str, tuple[Kept, ...]]] = {
    **dict.fromkeys(FREQUENT, ("frequent",)),
    "released": ("ended",),
    "lost": ("ended", "notable"),
}
"""The lists that have the notes of a kind; those of other kinds are notable."""


def _note_of(
    plan: Plan, kind: Kind, unit: str, at: float, seconds: float, fencing_token: int
) -> Note:
    return Note(at, kind, identity.who_is(unit, plan.terms.label), seconds, fencing_token)


class Tally:
    """Counts by name and metric, and the latest notes of each name. Not thread-safe."""

    __slots__ = ("_counts", "_notes", "deadlocks")

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self.deadlocks: deque[tuple[float, tuple[Wait, ...]]] = deque(maxlen=_MOST_KEPT["notable"])
        """When the latest ones were broken, and their waits."""
        self._notes: dict[str, dict[Kept, list[Note | HoldNote]]] = {}

    def count(self, kind: Kind, names: tuple[str, ...], bucket: int | None, times: int = 1) -> bool:
        """Count an event of some locks; return whether the last of them was acquired `FEW` times.

        `bucket` is the histogram's for the wait or the hold that ended with the event; None if none
        did.
        """
        metrics = _METRICS[kind, bucket]
        for name in names:
            has_own = name in self._counts or len(self._counts) < MOST_NAMES_KEPT
            counts = self._counts.setdefault(name if has_own else REST, {})
            for metric in metrics:
                counts[metric] = counts.get(metric, 0) + times
        return counts.get("a", 0) >= FEW

    def note(self, name: str, kind: str, note: Note | HoldNote) -> bool:
        """Keep a note among the latest of its name, unless there are too many names.

        Return whether no more notes of frequent kinds are wanted of the name.
        """
        lists = self._notes.get(name)
        if lists is None:
            if self.notes_no_more:
                return True
            lists = self._notes[name] = {}
        for kept in _LISTS.get(kind, _NOTABLE):
            notes = lists.setdefault(kept, [])
            notes.append(note)
            if len(notes) > (_MOST_KEPT.get(kept) or get_settings().history):
                del notes[0]
        return len(lists.get("frequent", ())) == FEW

    @property
    def notes_no_more(self) -> bool:
        """Whether so many names have notes that no other gets any."""
        return len(self._notes) >= MOST_NAMES_KEPT

    def figures(self) -> dict[str, int]:
        """Return what to add to each figure, "METRIC NAME"; the less contended names summed up."""
        figures: dict[str, int] = {}
        for place, name in enumerate(self._ranked(self._counts)):
            sent = name if place < MOST_NAMES_SENT else REST
            for metric, count in self._counts[name].items():
                figure = f"{metric} {sent}"
                figures[figure] = figures.get(figure, 0) + count
        return figures

    def notes(self, begun: Iterable[HoldNote] = ()) -> Iterator[tuple[str, Kept, Note]]:
        """Yield names, the lists they belong to, and notes, the oldest of each list first.

        Only of the names that are sent. `begun` has the notes of holds that have begun.
        """
        sent = dict.fromkeys(self._ranked({*self._counts, *self._notes})[:MOST_NAMES_SENT])
        holds: dict[str, list[HoldNote]] = {}
        for each in begun:
            for name in sent.keys() & each[0].names:
                holds.setdefault(name, []).append(each)
        for name in sent:
            lists = dict(self._notes.get(name, {}))
            lists["frequent"] = [*lists.get("frequent", ()), *holds.get(name, ())[:FEW]]
            for kept, notes in lists.items():
                made = [each if isinstance(each, Note) else _note_of(*each) for each in notes]
                most = FEW if kept == "frequent" else None
                for note in sorted(made, key=attrgetter("at"))[:most]:
                    yield name, kept, note

    def _ranked(self, names: Iterable[str]) -> list[str]:
        """Return the names whose figures are sent, the most contended first."""
        return sorted(names, key=self._rank)

    def _rank(self, name: str) -> tuple[int, int]:
        counts = self._counts.get(name, {})
        acquired = counts.get("a", 0)
        troubles = sum(counts.get(metric, 0) for metric in METRICS.values()) - acquired
        return -troubles, -acquired


class Collector:
    """The tallies of this process, by server, and the thread that sends them.

    It runs while there are any.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start empty. After a fork, the parent has the thread and sends what it had counted."""
        # Re-entrant: a finalizer or a signal handler may release a lock while its thread has the
        # guard.
        self._guard = threading.RLock()
        self.pending: deque[Pending] = deque()
        self.begun: list[HoldNote] = []
        """What is noted of holds that have begun. Which names need that shows when it is sent."""
        self.hold_notes: deque[HoldNote] = deque()
        self._alike: Counter[Pending] = Counter()
        """How often each pending event happened; kept here in case of an interrupt before it is
        counted.
        """
        self.most = 1
        """How many events may be pending: `BATCH`, or 1 while no thread runs, so that one is
        started.
        """
        self.full: set[str | tuple[str, str]] = set()
        """The servers and names that have all the notes of frequent kinds that are kept, until
        these are sent.

        A server by itself: so many names of it have notes that no lock of it gets more of those
        kinds.
        """
        self.noted: set[Plan] = set()
        """How holds were asked for of which no more beginnings are noted."""
        self._tallies: dict[str, Tally] = {}
        self._sending = threading.RLock()
        self._unsent: dict[str, Unsent] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def listens(self, kind: Kind) -> bool:
        """Return whether events of this kind are counted. A hold that moves counts once."""
        return kind not in _NOT_COUNTED and get_settings().statistics

    def take(self, event: LockEvent) -> None:
        """Note an event for the pages of its locks. Does not block."""
        if event.kind not in _NO_NOTES:
            seconds = event.held or event.waited
            detail = event.holder or event.reason
            note = Note(monotonic(), event.kind, event.who, seconds, event.fencing_token, detail)
            self.note(event.server, event.names, note)
        if event.circle:
            with self._guard:
                self._tally(event.server).deadlocks.append((monotonic(), event.circle))

    def catch_up(self) -> None:
        """Count what is pending, and note of it what the pages of its locks show.

        Does not block.
        """
        alike = self._alike
        with self._guard:
            with suppress(IndexError):  # it is empty
                alike.update(iter(self.pending.popleft, None))
            del self.begun[MOST_HOLDS_NOTED:]
            with suppress(IndexError):
                while True:
                    self._note_hold(self.hold_notes.popleft())
            with suppress(KeyError):
                while True:
                    (kind, of, bucket), times = alike.popitem()
                    if isinstance(of, tuple):
                        self._tally(of[0]).count(kind, of[1], bucket, times)
                    elif (
                        self._tally(of.terms.description).count(kind, of.names, bucket, times)
                        and len(self.noted) < MOST_NAMES_KEPT
                        and not of.is_large
                    ):
                        self.noted.add(of)

    def _note_hold(self, note: HoldNote) -> None:
        """Note that a hold has ended, or that one of many locks has begun."""
        plan, kind, *_ = note
        kept = _note_of(*note) if plan.is_large else note  # which would keep the plan
        self._keep(plan.terms.description, plan.names, kind, kept)

    def _keep(self, server: str, names: Iterable[str], kind: str, note: Note | HoldNote) -> None:
        """Keep a note of some locks, and note of which no more of frequent kinds are wanted."""
        tally = self._tally(server)
        enough = [(server, name) for name in names if tally.note(name, kind, note)]
        if enough:
            self.full.update([server] if tally.notes_no_more else enough)

    def note(self, server: str, names: Iterable[str], note: Note) -> None:
        """Note an event of some locks, to be sent some seconds later. Does not block."""
        with self._guard:
            self._keep(server, names, note.kind, note)

    def note_ended(self, server: str, name: str, kind: str) -> None:
        """Note that this thread, or the running task, ended a hold or a wait of somebody else.

        Args:
            server: The description of the server.
            name: The lock.
            kind: "force_released" or "cancelled".
        """
        if get_settings().statistics:
            note = Note(monotonic(), kind, identity.who_is(callers.session().unit, None))
            self.note(server, [name], note)

    def _tally(self, server: str) -> Tally:
        tally = self._tallies.get(server)
        if tally is None:
            tally = self._tallies[server] = Tally()
        if self._thread is None:
            self._start()
        return tally

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="redis_locks-statistics", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads can start, or the process ends
            return
        self._thread, self.most = thread, BATCH

    def _run(self) -> None:
        while True:
            self._ending.wait(INTERVAL)
            self.flush()
            with self._guard:
                # In this order: a caller that still saw the thread has appended before this.
                self._thread, self.most = None, 1
                # What a server that is away has not taken by the end of the process is lost with
                # that.
                if self._ending.is_set() or not (self.pending or self._tallies or self._unsent):
                    return
                self._thread, self.most = threading.current_thread(), BATCH

    def flush(self) -> None:
        """Send all figures now; blocks.

        Figures of a server that does not answer are kept for the next time.
        """
        # Not imported above: most processes import this module at start and send nothing for
        # seconds.
        from redis_locks.statistics.unsent import Unsent

        with self._sending:
            with self._guard:
                self.catch_up()
                tallies, self._tallies = self._tallies, {}
                begun, self.begun = self.begun, []
                self.full.clear()
                self.noted.clear()
            for server, tally in tallies.items():
                unsent = self._unsent.setdefault(server, Unsent())
                here = [each for each in begun if each[0].terms.description == server]
                unsent.add(tally.figures(), tally.notes(here), tally.deadlocks)
            for server, unsent in list(self._unsent.items()):
                if self._send(server, unsent):
                    del self._unsent[server]

    def _send(self, server: str, unsent: Unsent) -> bool:
        """Send what is to be sent to a server, and return whether nothing is left to be sent."""
        from redis_locks.connections import backends  # as above

        backend = backends.described(server)
        if backend is None:  # the settings have changed meanwhile
            return True
        try:
            run_blocking(unsent.send(backend))
        except (LinkBroken, LockBackendError):
            # The locks themselves tell their users what is wrong.
            logger.debug("The statistics of %s are sent later", server, exc_info=True)
            return False
        except Exception:
            logger.debug("The statistics of %s could not be sent", server, exc_info=True)
        return True

    def end(self) -> None:
        """Send all figures at the end of the process; blocks for `LAST_CHANCE` at most."""
        with self._guard:
            thread = self._thread
        if thread is not None:
            self._ending.set()
            thread.join(LAST_CHANCE)


collector = Collector()
os.register_at_fork(after_in_child=collector.reset)
atexit.register(collector.end)


def start() -> None:
    """Count what happens in this process, from the first call on."""
    dispatch.teller.statistics = collector
