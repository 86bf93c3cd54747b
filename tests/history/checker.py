"""What a history must not contain: the rules of locks, checked on what all processes wrote down.

A history is a list of events, in any order. Each is a dict with `what` happened and `at` which time
of CLOCK_MONOTONIC, which all processes of a machine share. `hold` names one section of one worker,
from its question to its end:

    ask      hold, lease; asked for the locks
    in       hold, fence, locks ({name: mode}), adopted; acquired
    still    hold; held, by its own clock
    mode     hold, fence, locks; upgraded or downgraded
    no       hold; not granted in time
    out      hold, how; released, committed, detached, lost, unknown
    error    hold, kind, text; what a caller was told
    broken   text; a worker itself saw a rule broken

What the one that injects faults wrote down, and what a witness saw on the server, in the server's
order:

    fault    kind, until, pid; from `at` until then
             of a fail-over: promoted (when the replica was), clock (the server's time then, as in
             fencing tokens), forgets (whether holds may be lost with the primary)
    force    lock, until; an operator ended its holds
    join     lock, token, upgrades; stands in line
    leave    lock, token; left the line, granted or not
    grant    lock, token; arrived, and holds
    gap      nothing was seen since: lines may have changed
    state    lock, held, waiting (pids); from now on
    left     text; something is there at the end
    data     lock, value; the number that commits counted up
    remains  lock, holders, waiters (pids); when all have ended
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any, Final

Event = dict[str, Any]

LATE: Final = 2.0
"""Seconds for which a lock may be free although a living process waits for it. A lost message costs
up to 6.
"""

EXTENDED: Final = 1.0
"""Seconds by which a lease may be longer than it was asked for, as holders extend it."""

FAIL_OVER: Final = "fail over"

_INTENTS: Final = {f"intent:{mode}" for mode in ("exclusive", "no_key", "shared", "key_share")}
_BESIDE: Final = {
    "exclusive": set[str](),
    "no_key": {"key_share", "intent:key_share"},
    "shared": {"shared", "key_share", "intent:shared", "intent:key_share"},
    "key_share": {"no_key", "shared", "key_share"} | (_INTENTS - {"intent:exclusive"}),
    "permit": {"permit"},
    "intent:exclusive": _INTENTS,
    "intent:no_key": _INTENTS | {"key_share"},
    "intent:shared": _INTENTS | {"key_share", "shared"},
    "intent:key_share": _INTENTS | {"key_share", "shared", "no_key"},
}
"""Which modes may be held at the same time, as documented; a permit is "permit:CAPACITY"."""


_LEAVE_THE_SERVER_ALONE: Final = {"kill", "stop", "force", "cancel", "flush scripts"}
"""The faults after which everybody can still tell the server that it has ended."""


@dataclass
class Belief:
    """From when until when a holder had reason to believe that it holds a lock in a mode."""

    hold: str
    lock: str
    mode: str
    asked: float
    start: float
    until: float
    fence: int
    goes_on: bool
    """Whether it is the same possession as an earlier one: adopted, or in another mode."""

    @property
    def kind(self) -> str:
        return "permit" if self.mode.startswith("permit:") else self.mode

    def excludes(self, other: Belief) -> bool:
        return other.kind not in _BESIDE[self.kind]

    def __str__(self) -> str:
        return (
            f"{self.hold} ({self.mode}, {self.start:.4f} to {self.until:.4f}, token {self.fence})"
        )


def read(folder: Path) -> list[Event]:
    """Return the events of all files in `folder`, without lines half written at a kill."""
    events: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        *lines, _ = path.read_bytes().split(b"\n")
        events += [json.loads(line) for line in lines]
    return events


def violations(events: list[Event], *, late: float = LATE) -> list[str]:
    """Return what is wrong, a line each; none if the history keeps all rules."""
    found = [f"broken: {each['text']}" for each in events if each["what"] == "broken"]
    found += [f"left behind: {each['text']}" for each in events if each["what"] == "left"]
    held = beliefs(events)
    by_lock = defaultdict[str, list[Belief]](list)
    for belief in held:
        by_lock[belief.lock].append(belief)
    lost = FailOvers(events)
    for lock in sorted(by_lock):
        its = sorted(by_lock[lock], key=lambda belief: belief.start)
        promised = [lost.promised(belief) for belief in its]
        found += [
            f"{lock}: {text}"
            for text in (*_overlaps(promised), *_falling(its, lost), *_doubled(its))
        ]
    found += _overtaking(events)
    found += _lost_early(events)
    found += _miscounted(events)
    found += _remaining(events)
    found += [
        f"{lock}: late entry: free for {end - start:.1f} s although {waiting} waited"
        for lock, start, end, waiting in idle_spans(events)
        if end - start > late
    ]
    return found


def beliefs(events: list[Event]) -> list[Belief]:
    """Return what the holders believed, without what an operator ended meanwhile."""
    books = _Books()
    for event in _in_time(events):
        read_event = getattr(books, f"read_{event['what']}", None)
        if read_event is not None:
            read_event(event, event["hold"])
    for force in (event for event in events if event["what"] == "force"):
        for belief in books.beliefs:
            if belief.lock == force["lock"] and belief.start < force["until"]:
                belief.until = min(belief.until, max(belief.start, force["at"]))
    return books.beliefs


def _in_time(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: float(event["at"]))


class _Books:
    """Makes beliefs from events, in the order of their times."""

    def __init__(self) -> None:
        self.beliefs: list[Belief] = []
        self._asked: dict[str, float] = {}
        self._current = defaultdict[str, list[Belief]](list)

    def read_ask(self, event: Event, hold: str) -> None:
        self._asked[hold] = event["at"]

    def read_in(self, event: Event, hold: str) -> None:
        # An adopted hold was granted at some time before.
        adopted = event["adopted"]
        self._begin(event, hold, -inf if adopted else self._asked[hold], goes_on=adopted)

    def read_mode(self, event: Event, hold: str) -> None:
        self._begin(event, hold, self._asked[hold], goes_on=True)

    def _begin(self, event: Event, hold: str, asked: float, *, goes_on: bool) -> None:
        at, fence = event["at"], event["fence"]
        self._current[hold] = [
            Belief(hold, lock, mode, asked, at, at, fence, goes_on)
            for lock, mode in event["locks"].items()
        ]
        self.beliefs += self._current[hold]

    def read_still(self, event: Event, hold: str) -> None:
        for belief in self._current[hold]:
            belief.until = event["at"]

    def read_out(self, _event: Event, hold: str) -> None:
        self._current.pop(hold, None)


class FailOvers:
    """The fail-overs of a history, and what each of them excuses.

    A fail-over may forget a hold that was granted before. Its holder still believes in it, but no
    longer than its lease: whoever asks the new primary is told. Fencing tokens are the server's
    time, so they say what was granted before.
    """

    def __init__(self, events: list[Event]) -> None:
        self.all = [each for each in events if each.get("kind") == FAIL_OVER]
        self.forgetful = [each for each in self.all if each["forgets"]]
        leases = [event["lease"] for event in events if event["what"] == "ask"]
        self._longest = max(leases, default=0.0) + EXTENDED

    def promised(self, belief: Belief) -> Belief:
        """Return what of a belief excludes others: nothing after a fail-over that may forget it."""
        for each in self.forgetful:
            told = belief.until <= each["promoted"] + self._longest
            if told and self._is_older(belief, each):
                until = min(belief.until, max(belief.start, each["at"]))
                belief = replace(belief, until=until)
        return belief

    def parts(self, earlier: Belief, belief: Belief) -> bool:
        """Whether `belief` may have been granted first, but heard of after a fail-over."""
        return any(
            self._is_older(belief, each) and not self._is_older(earlier, each)
            for each in self.forgetful
        )

    def excuses_loss(self, since: float, until: float) -> bool:
        """Whether a fail-over may have ended a hold that was asked for and lost then."""
        return any(since <= each["until"] and each["at"] <= until for each in self.forgetful)

    @staticmethod
    def _is_older(belief: Belief, each: Event) -> bool:
        return belief.fence < each["clock"] and belief.asked < each["promoted"]


def _overlaps(held: list[Belief]) -> Iterator[str]:
    """Exclusion and capacity; `held` are the beliefs in one lock by their start."""
    lasting: list[Belief] = []
    for belief in held:
        lasting = [each for each in lasting if each.until > belief.start]
        if belief.until <= belief.start:
            continue
        for other in lasting:
            if belief.excludes(other) and belief.hold != other.hold:
                yield f"overlap: {belief} and {other}"
        permits = [each for each in (belief, *lasting) if each.kind == "permit"]
        if permits and len(permits) > (least := min(int(each.mode[7:]) for each in permits)):
            names = ", ".join(map(str, permits))
            yield f"over capacity: {len(permits)} permits of {least}: {names}"
        lasting.append(belief)


def _falling(held: list[Belief], lost: FailOvers) -> Iterator[str]:
    """Fencing order: what was granted later has the greater token.

    `held` are the beliefs in one lock by their start.
    """

    # One that had ended before it began, by its own clock, believed nothing: its process stood
    # still.
    held = [belief for belief in held if belief.until > belief.start]
    starts = [belief.start for belief in held]
    highest = list(accumulate(held, _with_the_higher_token))
    for place, belief in enumerate(held):
        # What was acquired before this one was asked for was granted before, too. Else only what
        # excludes it is known to be earlier: of those that may stand beside each other the first
        # one granted may be heard of second.
        before = (
            [highest[bisect_left(starts, belief.asked) - 1]] if starts[0] < belief.asked else []
        )
        excluded = [other for other in held[:place] if belief.excludes(other)]
        before += [max(excluded, key=lambda other: other.fence)] if excluded else []
        for earlier in before:
            same = belief.fence == earlier.fence and (belief.goes_on or earlier.hold == belief.hold)
            if earlier.fence >= belief.fence and not same and not lost.parts(earlier, belief):
                yield f"token backwards: {belief} after {earlier}"
                break


def _doubled(held: list[Belief]) -> Iterator[str]:
    """No two holders beside each other have one fencing token; see `_falling` for the others."""
    first: dict[int, Belief] = {}
    for belief in held:
        # Adopted, or in another mode, it is the possession that it was.
        if not belief.goes_on:
            earlier = first.setdefault(belief.fence, belief)
            if earlier.hold != belief.hold and not belief.excludes(earlier):
                yield f"one token twice: {belief} and {earlier}"


def _with_the_higher_token(one: Belief, other: Belief) -> Belief:
    return max(one, other, key=lambda belief: belief.fence)


def _overtaking(events: list[Event]) -> Iterator[str]:
    """Order of arrival: nobody gets a lock while an earlier waiter stands in line for it."""
    lines = defaultdict[str, dict[str, float]](dict)
    left = dict[tuple[str, str], float]()
    """When those who have left came, to be granted or not."""
    for number, event in enumerate(events):
        what = event["what"]
        if what == "gap":
            lines.clear()
            left.clear()
        elif what == "join":
            lines[event["lock"]][event["token"]] = -inf if event["upgrades"] else number
        elif what == "leave":
            line = lines[event["lock"]]
            left[event["lock"], event["token"]] = line.pop(event["token"], number)
        elif what == "grant":
            lock, token = event["lock"], event["token"]
            came = left.pop((lock, token), number)
            before = [other for other, earlier in lines[lock].items() if earlier < came]
            yield from (
                f"{lock}: overtaking: {token} was granted it before {other}, who came earlier"
                for other in before
            )


def _lost_early(events: list[Event]) -> Iterator[str]:
    """A hold that nobody ended is not lost before its lease could have ended."""
    asked: dict[str, Event] = {}
    entered: dict[str, Event] = {}
    forces = [event for event in events if event["what"] == "force"]
    fail_overs = FailOvers(events)
    for event in _in_time(events):
        if event["what"] == "ask":
            asked[event["hold"]] = event
        elif event["what"] == "in":
            entered[event["hold"]] = event
        elif event["what"] == "out" and event["how"] == "lost" and event["hold"] in entered:
            began, into = asked[event["hold"]], entered[event["hold"]]
            forced = any(
                force["lock"] in into["locks"]
                and force["at"] <= event["at"]
                and force["until"] >= began["at"]
                for force in forces
            )
            forced = forced or fail_overs.excuses_loss(began["at"], event["at"])
            # Of what was waited for, only the server knows when it began.
            lasted = event["at"] - began["at"]
            if not forced and not into["adopted"] and lasted < began["lease"]:
                when = f"{lasted:.3f} s after it was asked for"
                yield f"lost early: {event['hold']} {when}, with a lease of {began['lease']} s"


def _miscounted(events: list[Event]) -> Iterator[str]:
    """Each commit counts a number up by one, from what its holder read under the lock.

    A fail-over may forget commits, whatever replicas know of the holds.
    """
    last = max((each["promoted"] for each in FailOvers(events).all), default=-inf)
    sure = defaultdict[str, int](int)
    perhaps = defaultdict[str, int](int)
    open_ones: dict[str, tuple[str, float]] = {}
    for event in _in_time(events):
        if event["what"] == "commit":
            open_ones[event["hold"]] = event["lock"], event["at"]
        elif event["what"] == "out" and event["hold"] in open_ones:
            lock, began = open_ones.pop(event["hold"])
            certain = event["how"] == "committed" and began > last
            sure[lock] += certain
            perhaps[lock] += event["how"] in {"committed", "unknown"} and not certain
    for lock, _ in open_ones.values():
        perhaps[lock] += 1
    for event in events:
        if event["what"] == "data":
            least = sure[event["lock"]]
            most = least + perhaps[event["lock"]]
            if not least <= event["value"] <= most:
                counted = f"{event['value']} after {least} to {most} commits"
                yield f"{event['lock']}: miscounted: {counted}"


def _remaining(events: list[Event]) -> Iterator[str]:
    """A process that ended, neither killed nor cut off, keeps no hold and no place in line."""
    faults = {event["kind"] for event in events if event["what"] == "fault"}
    if not faults <= _LEAVE_THE_SERVER_ALONE or "LockBackendError" in errors(events):
        return
    killed = {event["pid"] for event in events if event["what"] == "fault" and event["pid"]}
    detached = {
        event["hold"] for event in events if event["what"] == "out" and event["how"] == "detached"
    }
    on_its_way = defaultdict[str, int](int)
    for event in (event for event in events if event["what"] == "in"):
        for lock in event["locks"]:
            on_its_way[lock] += event["hold"] in detached
            on_its_way[lock] -= event["adopted"]
    for event in (event for event in events if event["what"] == "remains"):
        lock = event["lock"]
        holders = [pid for pid in event["holders"] if pid not in killed]
        waiters = [pid for pid in event["waiters"] if pid not in killed]
        if len(holders) > on_its_way[lock] or waiters:
            behind = f"{holders} hold it and {waiters} wait"
            yield f"{lock}: left behind: {behind}, though all have ended"


def idle_spans(events: list[Event]) -> Iterator[tuple[str, float, float, list[int]]]:
    """Liveness: when a lock was free while a living process waited, but for times of faults.

    Yields the lock, the start, the end, and the processes.
    """
    killed = {
        event["pid"]: event["at"]
        for event in events
        if event["what"] == "fault" and event["kind"] == "kill"
    }
    faults = [
        (event["at"], event["until"])
        for event in events
        if event["what"] == "fault" and event["until"] > event["at"]
    ]
    free_since = dict[str, tuple[float, list[int]]]()
    for event in _in_time(events):
        if event["what"] != "state":
            continue
        lock, at = event["lock"], event["at"]
        living = [pid for pid in event["waiting"] if killed.get(pid, at + 1) > at]
        if living and not event["held"]:
            free_since.setdefault(lock, (at, living))
        elif lock in free_since:
            start, waiting = free_since.pop(lock)
            last_fault = max(
                (end for begin, end in faults if begin < at and end > start), default=start
            )
            yield lock, min(last_fault, at), at, waiting
    for lock, (start, waiting) in free_since.items():
        yield lock, start, max(float(event["at"]) for event in events), waiting


def errors(events: Iterable[Event]) -> dict[str, int]:
    """Return how often callers were told what, by kind."""
    found = defaultdict[str, int](int)
    for event in events:
        if event["what"] == "error":
            found[event["kind"]] += 1
    return dict(found)
