"""One function per Lua script that looks at locks and changes nothing; see `store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redis_locks import scripts
from redis_locks.drivers.base import Link
from redis_locks.exceptions import ProtocolMismatch
from redis_locks.values.keys import Keys


class Snapshot(NamedTuple):
    """One lock as it was at `at_ms`, server time; `waiting` and `holding` count all of them.

    `holders` are (token, lease end ms, claim), `waiters` (token, claim) in queue order.
    """

    at_ms: int
    waiting: int
    holding: int
    holders: tuple[tuple[str, int, str], ...]
    waiters: tuple[tuple[str, str], ...]


async def names(link: Link, keys: Keys, most: int | None) -> list[str]:
    """Return the names in one partition's index, at most `most` (None: all), in no order."""
    call = (keys, ("", -1 if most is None else most))
    return [_text(name) for name in await link.call(scripts.INDEX, call)]


async def names_part(
    link: Link, keys: Keys, ends_ms: int, skip: int, most: int, *, lengths: bool
) -> tuple[dict[str, int], int]:
    """Return names in one partition's index by lease end, and the end of the last one's lease.

    They are those whose leases end at `ends_ms` (0: now) or later, without the first `skip`. With
    `lengths` each comes with the length of its queue, else with 0.
    """
    argv = ("", ends_ms, skip, most, int(lengths))
    packed, last, queues = await link.call(scripts.NAMES, (keys, argv))
    if not packed:
        return {}, ends_ms
    found = _text(packed).split("\0")
    if not lengths:
        return dict.fromkeys(found, 0), int(last)
    return dict(zip(found, map(int, queues.split()), strict=True)), int(last)


async def inspect(link: Link, locks: Sequence[Keys], most: int) -> list[Snapshot]:
    """Return each lock's snapshot, with the first `most` waiters and holders, in one round trip.

    Among several locks, one that a version with another protocol uses looks free: we cannot read it.
    """
    calls = [(keys, ("", most)) for keys in locks]
    replies = await link.call_many(scripts.INSPECT, calls)
    return [_snapshot(reply, alone=len(replies) == 1) for reply in replies]


def _snapshot(reply: Any, *, alone: bool) -> Snapshot:
    if isinstance(reply, ProtocolMismatch) and not alone:
        return Snapshot(0, 0, 0, (), ())
    if isinstance(reply, Exception):
        raise reply
    at_ms, waiting, holding, held, line = reply
    held, line = [_text(field) for field in held], [_text(field) for field in line]
    return Snapshot(
        int(at_ms),
        waiting,
        holding,
        tuple(
            (token, int(ends), claim) for token, ends, claim in zip(*[iter(held)] * 3, strict=True)
        ),
        tuple(zip(line[::2], line[1::2], strict=True)),
    )


def _text(field: bytes) -> str:
    return field.decode(errors="replace")
