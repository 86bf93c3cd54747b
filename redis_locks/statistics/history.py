"""Read figures and events from the server, as frozen rows, and sort them for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from redis_locks.conf.name_function import both_forms, listed, server_name
from redis_locks.connections.backends import Backend, Question, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.statistics import storage
from redis_locks.statistics.collector import METRICS, REST
from redis_locks.statistics.note import Event
from redis_locks.statistics.storage import Bucket
from redis_locks.values.arguments import one_of, optional_text
from redis_locks.values.histogram import quantile
from redis_locks.values.keys import validate_name
from redis_locks.values.name_patterns import matches

Period = Literal["hour", "day"]

PERIODS: Mapping[Period, tuple[int, int]] = {"hour": (60, 60), "day": (900, 96)}
"""How long each bucket is, in seconds, and how many there are."""


@dataclass(frozen=True, slots=True)
class LockStatistics:
    """The figures of one lock.

    Times are in seconds and approximate (within 20 %); None: no figures.

    Attributes:
        name: The lock; empty for the sum of the locks that have no figures of their own.
        acquired: How many holds began.
        contended: How many acquires found the lock held by somebody else.
        timed_out: How many waits ended without the lock.
        lost: How many holds were lost.
        deadlocks: How many waits were ended to resolve a deadlock.
        unavailable: How many acquires failed because Redis could not be asked.
        wait_p50: The median wait of all acquires; an acquire of a free lock counts as 0.
        wait_p99: The 99th percentile of the waits.
        hold_p50: The median hold.
        hold_p99: The 99th percentile of the holds.
    """

    name: str
    acquired: int
    contended: int
    timed_out: int
    lost: int
    deadlocks: int
    unavailable: int
    wait_p50: float | None
    wait_p99: float | None
    hold_p50: float | None
    hold_p99: float | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The sums of all locks in one minute of the hour, or in 15 minutes of the day.

    `at` is when these began, by the server's clock, in seconds since 1970. The 99th percentiles are
    as those of `LockStatistics`.
    """

    at: int
    acquired: int
    contended: int
    wait_p99: float | None = None
    hold_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of a period, which ends at `at`, by the server's clock, in seconds since 1970.

    `locks` are sorted by contention, highest first. `others` is the sum of the locks that have no
    figures of their own, because there were too many; None if there were none. `moments` are sorted
    by time, oldest first.
    """

    period: Period
    at: float
    locks: tuple[LockStatistics, ...]
    others: LockStatistics | None
    moments: tuple[Moment, ...]


_EVENTS = ("notable", "frequent")


@dataclass(frozen=True, slots=True)
class PastHold:
    """A hold that has ended.

    Attributes:
        began: When the lock was acquired, by the server's clock, in seconds since 1970. As
            much too late as the figures took on their way to the server: some milliseconds.
        ended: When it was released or found lost.
        who: The holder, as text for people.
        fencing_token: The hold's.
        outcome: "released" or "lost".
        detail: Why it was lost; empty otherwise.
    """

    began: float
    ended: float
    who: str
    fencing_token: int
    outcome: str
    detail: str


ORDERS: Final[Mapping[str, Callable[[LockStatistics], Any]]] = {
    "contended": lambda row: -row.contended,
    "acquired": lambda row: -row.acquired,
    "timeouts": lambda row: -row.timed_out,
    "lost": lambda row: -row.lost,
    "deadlocks": lambda row: -row.deadlocks,
    "unavailable": lambda row: -row.unavailable,
    "wait": lambda row: -(row.wait_p99 or 0),
    "hold": lambda row: -(row.hold_p99 or 0),
    "name": lambda row: row.name,
}


def ordered(rows: Iterable[LockStatistics], order: str) -> list[LockStatistics]:
    """Return the rows in one of `ORDERS`."""
    # Sorting is stable: rows of equal value stay sorted by contention.
    return sorted(rows, key=ORDERS[order])


def read(
    period: Period = "hour", *, using: str | None = None, pattern: str | None = None
) -> Statistics:
    """Return what all processes counted in the last hour or day; blocks for two round trips.

    Updated every 5 s.

    Args:
        period: "hour", by the minute, or "day", by the quarter of an hour.
        pattern: Only locks whose name matches, in upper or lower case; an asterisk stands for any
            text.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `pattern` is not a string.
        ValueError: There is no such period.
    """
    return blocking_answer(using, _read_of(period, pattern))


async def aread(
    period: Period = "hour", *, using: str | None = None, pattern: str | None = None
) -> Statistics:
    """Return what all processes counted; see `read`."""
    return await async_answer(using, _read_of(period, pattern))


def events(name: str, *, using: str | None = None) -> list[Event]:
    """Return what happened to a lock lately, latest first; blocks for a round trip.

    The server keeps the latest 20 acquires and contentions of a lock, and its latest 50 other
    events, for a day. It does so for the 2,000 locks with the latest events. A process sends at
    most 5 acquires and contentions of a lock in 5 s.

    Args:
        name: The lock.
        using: The server, as for `read`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    return blocking_answer(using, partial(_events, name=server_name(validate_name(name))))


async def aevents(name: str, *, using: str | None = None) -> list[Event]:
    """Return what happened to a lock lately; see `events`."""
    return await async_answer(using, partial(_events, name=server_name(validate_name(name))))


def holds(name: str, *, using: str | None = None) -> list[PastHold]:
    """Return the past holds of a lock, latest first; blocks for a round trip.

    The server keeps as many as ``REDIS_LOCKS["HISTORY"]`` says, for a day, of the 2,000 locks with
    the latest events. A process sends the latest of its 100 most contended locks every 5 s.

    Args:
        name: The lock.
        using: The server, as for `read`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    return blocking_answer(using, partial(_holds, name=server_name(validate_name(name))))


async def aholds(name: str, *, using: str | None = None) -> list[PastHold]:
    """Return the past holds of a lock; see `holds`."""
    return await async_answer(using, partial(_holds, name=server_name(validate_name(name))))


def _read_of(period: Period, pattern: str | None) -> Question[Statistics]:
    one_of(*PERIODS)(period, "period")
    return partial(_read, period=period, pattern=optional_text(pattern, "pattern"))


async def _read(
    backend: Backend, driver: Driver, *, period: Period, pattern: str | None
) -> Statistics:
    seconds, count = PERIODS[period]
    keys = backend.partitions()[0]
    asked = partial(storage.buckets, keys=keys, seconds=seconds, count=count)
    buckets = await backend.ask(driver, asked)
    if pattern is not None:
        buckets = [
            bucket._replace(figures=_matching(bucket.figures, pattern)) for bucket in buckets
        ]
    rows = [_row(name, counts) for name, counts in totals(buckets).items()]
    rows.sort(key=lambda row: (-row.contended, -row.acquired, row.name))
    return Statistics(
        period,
        buckets[0].at_ms / 1000,
        tuple(row for row in rows if row.name != REST),
        next((row for row in rows if row.name == REST), None),
        tuple(_moment(bucket, seconds) for bucket in reversed(buckets)),
    )


def totals(buckets: Iterable[Bucket]) -> dict[str, dict[str, int]]:
    """Return the sum of each metric of each lock, by name."""
    by_name: dict[str, dict[str, int]] = {}
    for bucket in buckets:
        for figure, count in bucket.figures.items():
            metric, _, name = figure.partition(" ")
            counts = by_name.setdefault(name, defaultdict(int))
            counts[metric] += count
    return by_name


def _matching(figures: Mapping[str, int], pattern: str) -> dict[str, int]:
    return {
        figure: count
        for figure, count in figures.items()
        if (name := figure.partition(" ")[2]) != REST
        and any(matches(form, name) for form in both_forms(pattern))
    }


def _row(name: str, counts: Mapping[str, int]) -> LockStatistics:
    figures: list[Any] = [counts.get(metric, 0) for metric in METRICS.values()]
    figures += [_wait(counts, share) for share in (0.5, 0.99)]
    figures += [quantile(histogram(counts, "h"), share) for share in (0.5, 0.99)]
    return LockStatistics(listed(name), *figures)


def _wait(counts: Mapping[str, int], share: float) -> float | None:
    waits = histogram(counts, "w")
    ended = sum(counts.get(METRICS[kind], 0) for kind in ("acquired", "timed_out", "deadlock"))
    # Acquires without a wait are in no bucket: they are all the others.
    return quantile(waits, share, max(0, ended - sum(waits.values())))


def histogram(counts: Mapping[str, int], kind: str) -> dict[int, int]:
    """Return the histogram of the holds ("h") or the waits ("w") among the metrics of a lock."""
    return {
        int(metric[1:]): count
        for metric, count in counts.items()
        if metric.startswith(kind) and metric[1:].isdecimal()
    }


def _moment(bucket: Bucket, seconds: int) -> Moment:
    sums: defaultdict[str, int] = defaultdict(int)
    for figure, count in bucket.figures.items():
        sums[figure.partition(" ")[0]] += count
    return Moment(
        bucket.number * seconds,
        sums["a"],
        sums["c"],
        _wait(sums, 0.99),
        quantile(histogram(sums, "h"), 0.99),
    )


async def _events(backend: Backend, driver: Driver, *, name: str) -> list[Event]:
    notes = await _noted(backend, driver, name, *_EVENTS)
    return sorted(notes, key=lambda event: -event.at)


async def _holds(backend: Backend, driver: Driver, *, name: str) -> list[PastHold]:
    past = [
        PastHold(end.at - end.seconds, end.at, end.who, end.fencing_token, end.kind, end.detail)
        for end in await _noted(backend, driver, name, "ended")
    ]
    return sorted(past, key=lambda hold: -hold.ended)


async def _noted(backend: Backend, driver: Driver, name: str, *kept: str) -> list[Event]:
    asked = partial(storage.notes, keys=backend.partitions()[0], name=name, kept=kept)
    return await backend.ask(driver, asked)
