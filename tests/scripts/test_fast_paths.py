"""The short ways of acquire and release come to the same end as the scripts without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.scripts import Script, load
from tests.scripts.bench import FOR_EVER, WHO, Bench

NEAR = 2_000
"""Milliseconds by which two expiries may differ that were set for the same reason."""


class Text(Script):
    def __init__(self, script: Script, text: bytes) -> None:
        super().__init__(script.name, script.parts)
        self.text = text


def short_of(script: Script) -> Script:
    """The first parts of a script alone; its reply is "missed" if they leave the work to the rest."""
    whole = load(script.name, "_modes", "_queue").text
    first = script.text.removesuffix(whole)
    assert first != script.text
    return Text(script, first + b"\nreturn 'missed'")


def long_of(script: Script) -> Script:
    """A script without its first parts."""
    return Text(script, b"local ended = false\n" + load(script.name, "_modes", "_queue").text)


class Side(Bench):
    """One lock, on which one way of a script is tried."""

    def __init__(self, client: redis.Redis, name: str, ways: Callable[[Script], Script]) -> None:
        super().__init__(client, name)
        self._ways = ways
        self.messages: list[object] = []

    def ask(self, script: Script, *argv: object) -> object:
        """Return the reply, or what the server refused with."""
        try:
            reply = self.run(self._ways(script), "a", *argv)
        except ResponseError as error:
            return self.plain(str(error).encode())
        return reply.decode() if reply == b"missed" else self.plain(reply)

    def plain(self, value: bytes) -> str:
        """Return a value without what differs from one lock and one moment to the next."""
        text = value.decode().replace(self.name, "NAME")
        text = re.sub(r" script: .*", "", text)  # where in the script
        return re.sub(r"\b1\d{12,15}\b", lambda found: f"<{len(found[0])} digits>", text)

    def everything(self) -> dict[str, tuple[object, int]]:
        """Return what there is: each key's value, and when it expires."""
        return {
            self.plain(key): (self._value(key), self.client.pexpiretime(key))
            for key in self.all_keys()
        }

    def _value(self, key: bytes) -> object:
        kind = self.client.type(key)
        if kind == b"string":
            return self.plain(self.client.get(key))
        if kind == b"list":
            return self.client.lrange(key, 0, -1)
        if kind == b"hash":
            return {at: self.plain(value) for at, value in self.client.hgetall(key).items()}
        if kind == b"zset":
            return [self.plain(member) for member in self.client.zrange(key, 0, -1)]
        return self.client.smembers(key)


ACQUIRE_NOW = (60_000, "exclusive", WHO, "nobody", 0, 1)
ACQUIRE_SOON = (60_000, "exclusive", WHO, "nobody", 5_000, 1)
ACQUIRE_EVER = (60_000, "exclusive", WHO, "nobody", FOR_EVER, 1)


def nothing(side: Side) -> None:
    pass


def fence_ahead(side: Side) -> None:
    """The clock was ahead when the lock was granted last."""
    side.client.set(side.keys.fence, 1_999_999_999_999_999, px=3_600_000)


def held(side: Side) -> None:
    side.acquire("holder", lease=30_000)


def held_and_waited_for(side: Side) -> None:
    held(side)
    side.listen("b")
    side.queue_up("b", wait=9_000)


def ours(side: Side) -> None:
    side.acquire("a")


def one_waits(side: Side) -> None:
    ours(side)
    side.listen("b")
    side.queue_up("b")


def one_waits_for_a_while(side: Side) -> None:
    ours(side)
    side.listen("b")
    side.queue_up("b", wait=9_000)


def two_wait(side: Side) -> None:
    one_waits(side)
    side.listen("c")
    side.queue_up("c")


def one_has_looked_for_a_deadlock(side: Side) -> None:
    one_waits(side)
    waits = side.index_key.removesuffix(b"index") + b"waits"
    side.client.hset(waits, "b", "NAME")
    side.client.pexpire(waits, 9_000)


def the_first_is_dead(side: Side) -> None:
    ours(side)
    side.queue_up("dead")
    side.listen("b")
    side.queue_up("b")


def all_are_dead(side: Side) -> None:
    ours(side)
    side.queue_up("dead", "gone")


def a_reader_waits(side: Side) -> None:
    ours(side)
    side.listen("b")
    side.queue_up("b", mode="shared")


def foreign_fence(side: Side) -> None:
    side.put_foreign("fence")


def foreign_queue(side: Side) -> None:
    held(side)
    side.put_foreign("queue")


SHORT = [
    (nothing, scripts.ACQUIRE, ACQUIRE_NOW),
    (nothing, scripts.ACQUIRE, ACQUIRE_EVER),
    (fence_ahead, scripts.ACQUIRE, ACQUIRE_NOW),
    (held, scripts.ACQUIRE, ACQUIRE_NOW),
    (held, scripts.ACQUIRE, ACQUIRE_SOON),
    (held, scripts.ACQUIRE, ACQUIRE_EVER),
    (held_and_waited_for, scripts.ACQUIRE, ACQUIRE_NOW),
    (held_and_waited_for, scripts.ACQUIRE, ACQUIRE_SOON),
    (foreign_fence, scripts.ACQUIRE, ACQUIRE_NOW),
    (foreign_queue, scripts.ACQUIRE, ACQUIRE_SOON),
    (ours, scripts.RELEASE, ()),
    (one_waits, scripts.RELEASE, ()),
    (one_waits_for_a_while, scripts.RELEASE, ()),
    (two_wait, scripts.RELEASE, ()),
    (one_has_looked_for_a_deadlock, scripts.RELEASE, ()),
]
LEFT_TO_THE_REST = [
    (ours, scripts.ACQUIRE, (*ACQUIRE_NOW[:-1], 0)),
    (nothing, scripts.ACQUIRE, (60_000, "shared", WHO, "nobody", 0, 1)),
    (nothing, scripts.RELEASE, ()),
    (held, scripts.RELEASE, ()),
    (the_first_is_dead, scripts.RELEASE, ()),
    (all_are_dead, scripts.RELEASE, ()),
    (a_reader_waits, scripts.RELEASE, ()),
]
Case = tuple[Callable[[Side], None], Script, tuple[object, ...]]


def named(case: Case) -> str:
    before, script, argv = case
    return f"{script.name}-{before.__name__}-{argv[4] if argv else ''}"


@pytest.fixture
def side(client: redis.Redis, name: str) -> Iterator[Callable[[Callable[[Script], Script]], Side]]:
    made: list[Side] = []

    def make(ways: Callable[[Script], Script]) -> Side:
        made.append(Side(client, f"{name}-{len(made)}", ways))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("case", SHORT, ids=named)
def test_the_short_way_is_taken(side: Callable[..., Side], case: Case) -> None:
    before, script, argv = case
    short = side(short_of)
    before(short)
    assert "missed" != short.ask(script, *argv)


@pytest.mark.parametrize("case", LEFT_TO_THE_REST, ids=named)
def test_what_is_not_plain_is_left_to_the_rest(side: Callable[..., Side], case: Case) -> None:
    before, script, argv = case
    short = side(short_of)
    before(short)
    assert "missed" == short.ask(script, *argv)


@pytest.mark.parametrize("case", SHORT + LEFT_TO_THE_REST, ids=named)
def test_both_ways_end_alike(side: Callable[..., Side], case: Case) -> None:
    before, script, argv = case
    found = []
    for ways in (lambda script: script, long_of):
        one = side(ways)
        before(one)
        reply = one.ask(script, *argv)
        messages = [one.heard(each) for each in one._subscriptions]
        told = [each and [one.plain(word.encode()) for word in each] for each in messages]
        found.append((reply, told, one.everything()))
    (reply, told, short), (as_long_reply, as_long_told, long) = found
    assert (as_long_reply, as_long_told) == (reply, told)
    assert {key: value for key, (value, _) in long.items()} == {
        key: value for key, (value, _) in short.items()
    }
    assert {key: pytest.approx(expires, abs=NEAR) for key, (_, expires) in long.items()} == {
        key: expires for key, (_, expires) in short.items()
    }
