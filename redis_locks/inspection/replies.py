"""One function per Lua script that looks at locks and changes nothing; see `store`."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any, Final, NamedTuple

from redis_locks import scripts
from redis_locks.conf.name_function import listed
from redis_locks.drivers.base import Link, argv
from redis_locks.exceptions import ProtocolMismatch
from redis_locks.values.claims import Who, parse_who, write_who
from redis_locks.values.keys import Keys

_SUMMARY = 12
"""How many fields the script `survey` packs for each lock."""

MOST_LISTED: Final = 10
"""How many holders, and how many waiters, a summary knows of, as the script `survey` does."""

_LATEST = 2.0**53
"""The greatest whole number that Lua counts with, in milliseconds: a time far beyond any lease."""

NO_PLACE: Final = "none"
"""For the place in the queue to go on at: nobody stands there or behind it."""


class Snapshot(NamedTuple):
    """One lock as it was at `at_ms`, server time; `waiting` and `holding` count all of them.

    `holders` are (token, lease end ms, claim), `waiters` (token, claim) in queue order. The queue
    goes on at `place`.
    """

    at_ms: int
    waiting: int
    holding: int
    holders: tuple[tuple[str, int, str], ...]
    waiters: tuple[tuple[str, str], ...]
    place: str = NO_PLACE

    @property
    def is_whole(self) -> bool:
        """Whether all holders and waiters are there."""
        return self.place == NO_PLACE and len(self.holders) >= self.holding


class Summary(NamedTuple):
    """One lock in short; times in seconds, and 0 if there is none.

    `held_for` is the earliest holder's; `lease_left` and `lease` are those of the lease that ends
    first. `held_by` and `waited_for_by` are texts of the first ten of each, and the earliest holder
    is the first. `gone` counts those of the first ten holders whose process has died or is cut off.
    `several` are the tokens of waiters that want other locks as well; `unseen` waiters were not
    looked at for that.
    """

    name: str
    waiting: int
    oldest_wait: float
    holding: int
    held_for: float
    lease_left: float
    lease: float
    held_by: str
    waited_for_by: str
    gone: int = 0
    several: tuple[str, ...] = ()
    unseen: int = 0

    def later(self, seconds: float) -> Summary:
        """Return it as it is so many seconds later, if nothing changes."""
        # To the millisecond: what began at the same time keeps its order.
        return self._replace(
            oldest_wait=round(self.oldest_wait + seconds, 3) if self.waiting else 0.0,
            held_for=round(self.held_for + seconds, 3) if self.holding else 0.0,
            lease_left=max(0.0, round(self.lease_left - seconds, 3)),
        )

    @property
    def holders(self) -> list[Who]:
        """The first ten holders, the earliest one first."""
        return _people(self.held_by)

    @property
    def waiters(self) -> list[Who]:
        """The first ten waiters."""
        return _people(self.waited_for_by)


async def names_part(
    link: Link, keys: Keys, ends_ms: int, skip: int, most: int, *, lengths: bool
) -> tuple[dict[str, int], int]:
    """Return names in one partition's index by lease end, and the end of the last one's lease.

    They are those whose leases end at `ends_ms` (0: now) or later, without the first `skip`. With
    `lengths` each comes with the length of its queue, else with 0.
    """
    words = argv("", ends_ms, skip, most, int(lengths))
    ((packed, last, queues),) = await link.call(scripts.NAMES, (keys, words))
    if not packed:
        return {}, ends_ms
    names = [listed(name) for name in _text(packed).split("\0")]
    if not lengths:
        return dict.fromkeys(names, 0), _milliseconds(last)
    return dict(zip(names, map(int, queues.split()), strict=True)), _milliseconds(last)


async def long_waits(link: Link, keys: Keys, most: int) -> tuple[int, dict[str, int]]:
    """Return how many locks of a partition are held or waited for.

    And those with long waits, oldest first.

    Each has a time in ms: a waiter has waited since then. It may be gone by now.
    """
    ((count, *noted),) = await link.call(scripts.LONG_WAITS, (keys, argv("", most)))
    return count, {
        listed(_text(name)): int(since) for name, since in zip(*[iter(noted)] * 2, strict=True)
    }


async def summaries(link: Link, keys: Keys, *, in_cluster: bool) -> tuple[int, dict[str, Summary]]:
    """Return the server's time, and a summary of each lock in use.

    Somebody holds it or waits for it.
    """
    ((at, packed),) = await link.call(scripts.SURVEY, (keys, argv("", int(not in_cluster))))
    at_ms = int(at)
    fields = _text(packed).split("\0") if packed else []
    by_name = {}
    for name, waiting, since, holding, held, ends, lease, held_by, waited_for_by, *more in zip(
        *[iter(fields)] * _SUMMARY, strict=True
    ):
        name = listed(name)  # noqa: PLW2901 - the same text
        gone, several, unseen = more
        by_name[name] = Summary(
            name,
            int(waiting),
            _age(at_ms, since),
            int(holding),
            _age(at_ms, held),
            max(0, _milliseconds(ends) - at_ms) / 1000 if ends != "0" else 0.0,
            int(lease) / 1000,
            held_by if "\t" in held_by or not held_by.strip() else _other_version(held_by),
            waited_for_by,
            int(gone),
            tuple(several.split()),
            int(unseen),
        )
    return at_ms, by_name


def _age(at_ms: int, since_ms: str) -> float:
    return max(0, at_ms - int(since_ms)) / 1000 if since_ms != "0" else 0.0


def _people(texts: str) -> list[Who]:
    return [who for text in texts.split("\n") if text and (who := parse_who(text))]


async def inspect(link: Link, locks: Sequence[Keys], most: int) -> list[Snapshot]:
    """Return each lock's snapshot, with the first `most` waiters and holders, in one round trip.

    Of a lock that a version with another protocol uses, only its number and its lease are known.
    """
    calls = [(keys, argv("", most, "first", 0, 0)) for keys in locks]
    replies = await link.call_many(scripts.INSPECT, calls)
    return [
        _unreadable(reply) if isinstance(reply, ProtocolMismatch) else _snapshot(reply)
        for reply in replies
    ]


async def inspect_part(
    link: Link, keys: Keys, most: int, place: str, ends_ms: int, skip: int
) -> Snapshot:
    """Return the waiters from a place in the queue on, and the later holders.

    Their leases end at `ends_ms` or later.

    It leaves out the first `skip` of these holders, and returns `most` of both at most.
    """
    call = (keys, argv("", most, place, ends_ms, skip))
    (reply,) = await link.call(scripts.INSPECT, call)
    return _snapshot(reply)


def _snapshot(reply: Any) -> Snapshot:
    if isinstance(reply, Exception):
        raise reply
    at_ms, waiting, holding, held, queue, place = reply
    held, queue = [_text(field) for field in held], [_text(field) for field in queue]
    return Snapshot(
        int(at_ms),
        int(waiting),
        int(holding),
        tuple(
            (token, _milliseconds(ends), claim)
            for token, ends, claim in zip(*[iter(held)] * 3, strict=True)
        ),
        tuple(zip(queue[::2], queue[1::2], strict=True)),
        _text(place),
    )


def _unreadable(mismatch: ProtocolMismatch) -> Snapshot:
    # The refusal does not tell the server's time.
    at_ms = int(time() * 1000)
    ends_ms = at_ms + round(mismatch.retry_after * 1000)
    claim = f"0 {at_ms}  0 - 0 1 {_other_version(mismatch.theirs)}"
    return Snapshot(at_ms, 0, 1, (("", ends_ms, claim),), ())


def _other_version(protocol: str) -> str:
    """Return who holds a lock that a version with another protocol uses, as far as we know it."""
    return write_who("", 0, "", f"django-redis-locks with protocol {protocol}")


def _milliseconds(score: str | bytes) -> int:
    """Return a score of a sorted set. Ours are whole numbers, but other programs may add any."""
    return int(min(float(score), _LATEST))


def _text(field: bytes) -> str:
    return field.decode(errors="replace")
