"""One function per Lua script of the statistics: typed arguments in, a small reply out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from redis_locks.drivers.base import Arg, Call, Link
from redis_locks.scripts import Script
from redis_locks.statistics import scripts
from redis_locks.values.keys import Keys
from redis_locks.values.text import shorten

if TYPE_CHECKING:
    from redis_locks.connections.backends import Backend

_CHUNK = 1000
"""How many arguments one script call gets, so that none keeps the server for long."""

_LONGEST = 300


class Note(NamedTuple):
    """Something that happened to a lock, for its page. Times are on ``time.monotonic()``."""

    at: float
    kind: str
    who: object
    """Shown as text, which is made when it is sent."""
    seconds: float = 0.0
    """How long the wait or the hold was that ended with it."""
    fencing_token: int = 0
    detail: str = ""


class Bucket(NamedTuple):
    """The figures, "METRIC NAME", of the `number`-th span since 1970, read at `at_ms`."""

    at_ms: int
    number: int
    figures: Mapping[str, int]


class Noted(NamedTuple):
    """Something that happened at `at_ms`, server time; JSON as `add` writes it."""

    at_ms: int
    text: str


async def add(
    backend: Backend, figures: Mapping[str, int], notes: Iterable[tuple[str, Note, bool]]
) -> None:
    """Add figures and notes to what the server has; once, whatever fails.

    Args:
        backend: The server.
        figures: What to add to each figure, "METRIC NAME".
        notes: Locks and what happened to them, and whether that is one of the frequent kinds.
    """
    keys = backend.partitions()[0]
    counted: list[Arg] = [part for pair in figures.items() for part in pair]
    noted: list[Arg] = []
    now = monotonic()
    for name, note, frequent in notes:
        words = {
            "kind": note.kind,
            "who": shorten(str(note.who or ""), _LONGEST),
            "seconds": round(note.seconds, 4),
            "fencing_token": note.fencing_token,
            "detail": shorten(note.detail, _LONGEST),
        }
        age_ms = round((now - note.at) * 1000)
        noted += [name, int(frequent), age_ms, json.dumps(words, separators=(",", ":"))]
    link = await backend.driver.checkout()
    try:
        await _send(link, scripts.ADD, keys, counted)
        await _send(link, scripts.NOTE, keys, noted)
    finally:
        backend.driver.checkin(link)


async def _send(link: Link, script: Script, keys: Keys, words: Sequence[Arg]) -> None:
    # One by one: many at once are all sent again if the server knew the script for some only.
    for start in range(0, len(words), _CHUNK):
        await link.call(script, (keys, ("", *words[start : start + _CHUNK])))


async def buckets(link: Link, keys: Keys, seconds: int, count: int) -> list[Bucket]:
    """Return the latest `count` buckets of so many seconds each, the one of this moment first."""
    latest = _bucket(await link.call(scripts.READ, (keys, ("", seconds, -1))))
    before = range(latest.number - 1, latest.number - count, -1)
    calls: list[Call] = [(keys, ("", seconds, number)) for number in before]
    return [latest, *map(_bucket, await link.call_many(scripts.READ, calls))]


def _bucket(reply: Any) -> Bucket:
    if isinstance(reply, Exception):
        raise reply
    at_ms, number, packed = reply
    words = packed.decode(errors="replace").split("\0") if packed else []
    figures = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return Bucket(int(at_ms), int(number), figures)


async def notes(link: Link, keys: Keys, name: str) -> list[Noted]:
    """Return what was noted of a lock, in no order."""
    found = await link.call(scripts.NOTES, (keys, ("", name)))
    parts = (each.decode(errors="replace").partition(" ") for each in found)
    return [Noted(int(at_ms), text) for at_ms, _, text in parts]
