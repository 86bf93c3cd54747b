"""What was counted and noted, read back as frozen rows, and the orders in which they are shown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from redis_locks.connections.backends import Backend, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.statistics import storage
from redis_locks.statistics.collector import METRICS, REST
from redis_locks.statistics.histogram import quantile
from redis_locks.statistics.storage import Bucket
from redis_locks.values.keys import validate_name

Period = Literal["hour", "day"]

PERIODS: Mapping[Period, tuple[int, int]] = {"hour": (60, 60), "day": (900, 96)}
"""How long each bucket is, in seconds, and how many there are."""


@dataclass(frozen=True, slots=True)
class LockStatistics:
    """What one lock was used for. Times are in seconds and at most a fifth off; None: no figures.

    Attributes:
        name: The lock; empty for all those together that are not counted by themselves.
        acquired: How many holds began.
        contended: How many acquires found it held by somebody else.
        timed_out: How many waits ended without it.
        lost: How many holds were found to be lost.
        deadlocks: How many waits were ended for others to go on.
        wait_p50: What half of the acquires did not wait longer than; 0 for those of a free lock.
        wait_p99: What 99 of 100 did not wait longer than.
        hold_p50: What half of the holds were not longer than.
        hold_p99: What 99 of 100 were not longer than.
    """

    name: str
    acquired: int
    contended: int
    timed_out: int
    lost: int
    deadlocks: int
    wait_p50: float | None
    wait_p99: float | None
    hold_p50: float | None
    hold_p99: float | None


@dataclass(frozen=True, slots=True)
class Moment:
    """What was counted for all locks together in one minute, or in a quarter of an hour of a day.

    `at` is when that began, by the server's clock, in seconds since 1970.
    """

    at: int
    acquired: int
    contended: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of a period, which ends at `at`, by the server's clock, in seconds since 1970.

    `locks` come most contended first. `others` is the sum of those that were not counted by
    themselves because there were too many; None if there were none. `moments` come oldest first.
    """

    period: Period
    at: float
    locks: tuple[LockStatistics, ...]
    others: LockStatistics | None
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a lock.

    Attributes:
        at: When, by the server's clock, in seconds since 1970.
        kind: "acquired", "contended", "timed_out", "lost", "deadlock", "force_released" or
            "cancelled".
        who: Who it happened to, or who did it, as text for people.
        seconds: How long the wait or, of a lost one, the hold was.
        fencing_token: Of the hold; 0 if there is none.
        detail: Who was in the way, or why the hold was lost; often empty.
    """

    at: float
    kind: str
    who: str
    seconds: float
    fencing_token: int
    detail: str


ORDERS: Final[Mapping[str, Callable[[LockStatistics], Any]]] = {
    "contended": lambda row: -row.contended,
    "acquired": lambda row: -row.acquired,
    "timeouts": lambda row: -row.timed_out,
    "lost": lambda row: -row.lost,
    "deadlocks": lambda row: -row.deadlocks,
    "wait": lambda row: -(row.wait_p99 or 0),
    "hold": lambda row: -(row.hold_p99 or 0),
    "name": lambda row: row.name,
}


def ordered(rows: Iterable[LockStatistics], order: str) -> list[LockStatistics]:
    """Return the rows in one of `ORDERS`."""
    # Sorting is stable, and they come most contended first.
    return sorted(rows, key=ORDERS[order])


def read(period: Period = "hour", *, using: str | None = None) -> Statistics:
    """Return what all processes counted in the last hour or day; blocks for two round trips.

    Processes send what they count every 5 s.

    Args:
        period: "hour", by the minute, or "day", by the quarter of an hour.
        using: The server: a CACHES alias, a URL or a dotted path; None is REDIS_LOCKS["CONNECTION"].

    Raises:
        LockBackendError: Redis could not be asked.
        ValueError: There is no such period.
    """
    return blocking_answer(using, partial(_read, period=_validated(period)))


async def aread(period: Period = "hour", *, using: str | None = None) -> Statistics:
    """Return what all processes counted; see `read`."""
    return await async_answer(using, partial(_read, period=_validated(period)))


def events(name: str, *, using: str | None = None) -> list[Event]:
    """Return what happened to a lock lately, latest first; blocks for a round trip.

    They are the latest 20 acquires and contentions, of which each process tells 5 in 5 s at most,
    and the latest 50 others; those of the last day, and of the 2,000 locks that had any last.

    Args:
        name: The lock.
        using: The server, as for `read`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    return blocking_answer(using, partial(_events, name=validate_name(name)))


async def aevents(name: str, *, using: str | None = None) -> list[Event]:
    """Return what happened to a lock lately; see `events`."""
    return await async_answer(using, partial(_events, name=validate_name(name)))


async def _read(backend: Backend, driver: Driver, *, period: Period) -> Statistics:
    seconds, count = PERIODS[period]
    keys = backend.partitions()[0]
    asked = partial(storage.buckets, keys=keys, seconds=seconds, count=count)
    found = await backend.ask(driver, asked)
    rows = [_row(name, counts) for name, counts in _totals(found).items()]
    rows.sort(key=lambda row: (-row.contended, -row.acquired, row.name))
    return Statistics(
        period,
        found[0].at_ms / 1000,
        tuple(row for row in rows if row.name != REST),
        next((row for row in rows if row.name == REST), None),
        tuple(_moment(bucket, seconds) for bucket in reversed(found)),
    )


def _totals(buckets: Iterable[Bucket]) -> dict[str, dict[str, int]]:
    totals: dict[str, dict[str, int]] = {}
    for bucket in buckets:
        for figure, count in bucket.figures.items():
            metric, _, name = figure.partition(" ")
            counts = totals.setdefault(name, defaultdict(int))
            counts[metric] += count
    return totals


def _row(name: str, counts: Mapping[str, int]) -> LockStatistics:
    waits, holds = _histogram(counts, "w"), _histogram(counts, "h")
    acquired, contended, timed_out, lost, deadlocks = (
        counts.get(metric, 0) for metric in METRICS.values()
    )
    # Those that did not wait need no figure of their own.
    at_once = max(0, acquired + timed_out + deadlocks - sum(waits.values()))
    return LockStatistics(
        name,
        acquired,
        contended,
        timed_out,
        lost,
        deadlocks,
        *(quantile(waits, share, at_once) for share in (0.5, 0.99)),
        *(quantile(holds, share) for share in (0.5, 0.99)),
    )


def _histogram(counts: Mapping[str, int], kind: str) -> dict[int, int]:
    return {int(metric[1:]): count for metric, count in counts.items() if metric[0] == kind}


def _moment(bucket: Bucket, seconds: int) -> Moment:
    sums = {"a": 0, "c": 0}
    for figure, count in bucket.figures.items():
        if figure[1] == " " and figure[0] in sums:
            sums[figure[0]] += count
    return Moment(bucket.number * seconds, sums["a"], sums["c"])


async def _events(backend: Backend, driver: Driver, *, name: str) -> list[Event]:
    asked = partial(storage.notes, keys=backend.partitions()[0], name=name)
    found = await backend.ask(driver, asked)
    events = [Event(note.at_ms / 1000, **json.loads(note.text)) for note in found]
    return sorted(events, key=lambda event: -event.at)


def _validated(period: Period) -> Period:
    if period not in PERIODS:
        msg = f"period must be {' or '.join(map(repr, PERIODS))}, not {period!r}"
        raise ValueError(msg)
    return period
