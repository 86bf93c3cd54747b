"""One function per Lua script of the statistics: typed arguments in, a small reply out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import Call, Link, argv
from redis_locks.exceptions import Wait
from redis_locks.scripts import Script
from redis_locks.statistics import scripts
from redis_locks.statistics.note import Event, Note
from redis_locks.values.identity import process_name
from redis_locks.values.keys import Keys
from redis_locks.values.text import shorten

if TYPE_CHECKING:
    from redis_locks.connections.backends import Backend
    from redis_locks.statistics.circles import Circle

_CHUNK = 400
"""How many arguments one script call gets at most, so that no call keeps the server busy for long.
"""

_MOST_PARTS = 10_000
"""How many script calls a batch takes at most."""

_LONGEST = 300

_WORDS: Final[Mapping[str, Any]] = {
    "kind": str,
    "who": str,
    "seconds": float | int,
    "fencing_token": int,
    "detail": str,
}


class Bucket(NamedTuple):
    """The figures, "METRIC NAME", of the `number`-th span since 1970, read at `at_ms`."""

    at_ms: int
    number: int
    figures: Mapping[str, int]


OfLock = tuple[str, str, Note]
"""The name of a lock, the list of its notes ("frequent", "notable" or "ended"), and a note."""

Deadlock = tuple[float, tuple[Wait, ...]]
"""When it was broken, on ``time.monotonic()``, and its waits."""


async def add(
    backend: Backend,
    number: int,
    at: float,
    figures: Mapping[str, int],
    notes: Iterable[OfLock],
    deadlocks: Iterable[Deadlock],
) -> None:
    """Add figures and notes to those of the server.

    After an error, add the same again: they count once.

    Args:
        backend: The server.
        number: The number of the batch, which grows with each of this process.
        at: When it happened, on ``time.monotonic()``.
        figures: What to add to each figure, "METRIC NAME".
        notes: What happened to locks.
        deadlocks: When each was broken, and its waits.
    """
    keys = backend.partitions()[0]
    now = monotonic()
    counted = [part for pair in figures.items() for part in pair]
    noted: list[str | int] = []
    for name, kept, note in notes:
        written = {
            "kind": note.kind,
            "who": shorten(str(note.who or ""), _LONGEST),
            "seconds": round(note.seconds, 4),
            "fencing_token": note.fencing_token,
            "detail": shorten(note.detail, _LONGEST),
        }
        age_ms = round((now - note.at) * 1000)
        noted += [name, kept, age_ms, json.dumps(written, separators=(",", ":"))]
    for broken_at, waits in deadlocks:
        # Not imported above: most processes never have one.
        from redis_locks.statistics import circles

        noted += ["", "circles", round((now - broken_at) * 1000), circles.written(waits)]
    calls = [
        *_calls(scripts.ADD, counted, round((now - at) * 1000)),
        *_calls(scripts.NOTE, noted, get_settings().history),
    ]
    link = await backend.driver.checkout()
    try:
        # One by one: `call_many` sends all calls again if the server lacks the script for some.
        for part, (script, words) in enumerate(calls):
            sender = process_name(), number * _MOST_PARTS + part
            await link.call(script, (keys, argv("", *sender, *words)))
    finally:
        backend.driver.checkin(link)


def _calls(
    script: Script, words: Sequence[str | int], before: int
) -> Iterator[tuple[Script, list[str | int]]]:
    for start in range(0, len(words), _CHUNK):
        yield script, [before, *words[start : start + _CHUNK]]


async def buckets(link: Link, keys: Keys, seconds: int, count: int) -> list[Bucket]:
    """Return the latest `count` buckets of `seconds` each, the present one first."""
    (latest,) = await _read(link, keys, seconds, [-1])
    before = range(latest.number - 1, latest.number - count, -1)
    return [latest, *await _read(link, keys, seconds, before)]


async def _read(link: Link, keys: Keys, seconds: int, numbers: Sequence[int]) -> list[Bucket]:
    """Read buckets, each in parts: all first parts in one round trip, then those that go on."""
    by_number: dict[int, Bucket] = {}
    calls: list[Call] = [(keys, argv("", seconds, number, 0)) for number in numbers]
    while calls:
        parts = [_part(reply) for reply in await link.call_many(scripts.READ, calls)]
        calls = []
        for bucket, following in parts:
            figures = by_number[bucket.number].figures if bucket.number in by_number else {}
            by_number[bucket.number] = bucket._replace(figures={**figures, **bucket.figures})
            if following:
                calls.append((keys, argv("", seconds, bucket.number, following)))
    return list(by_number.values())


def _part(reply: Any) -> tuple[Bucket, int]:
    """Return a part of a bucket, and where to go on; 0 if it is the last part."""
    if isinstance(reply, Exception):
        raise reply
    at_ms, number, following, packed = reply
    words = packed.decode(errors="replace").split("\0") if packed else []
    counted = zip(words[::2], words[1::2], strict=False)
    # Other programs, or a later version, may have written what is no figure of ours.
    figures = {figure: int(count) for figure, count in counted if count.isdecimal()}
    return Bucket(int(at_ms), int(number), figures), int(following)


async def notes(link: Link, keys: Keys, name: str, kept: Sequence[str]) -> list[Event]:
    """Return the notes in some lists of a lock, in no order."""
    (found,) = await link.call(scripts.NOTES, (keys, ("", name, *kept)))
    texts = (each.decode(errors="replace") for each in found)
    return [event for text in texts if (event := _event(text))]


def _event(text: str) -> Event | None:
    """Return what a note tells; None if we cannot read it.

    A later version may write words that we do not know.
    """
    at_ms, _, written = text.partition(" ")
    try:
        read = json.loads(written)
        words = {field: read[field] for field in _WORDS}
        known = all(isinstance(words[field], kind) for field, kind in _WORDS.items())
        return Event(int(at_ms) / 1000, **words) if known else None
    except (ValueError, LookupError, TypeError):
        return None


async def deadlocks(link: Link, keys: Keys) -> list[Circle]:
    """Return the deadlocks of the last hour, latest first."""
    from redis_locks.statistics.circles import Circle

    (found,) = await link.call(scripts.NOTES, (keys, ("", "", "circles")))
    kept = []
    for each in found:
        at_ms, _, words = each.decode(errors="replace").partition(" ")
        if at_ms.isdecimal() and (circle := Circle.parse(int(at_ms), words)):
            kept.append(circle)
    return sorted(kept, key=lambda circle: -circle.at)
