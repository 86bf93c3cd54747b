"""The short ways of acquire, release and commit come to the same end as the scripts without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.keys import lock_keys
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
    """A script that never takes its short way."""
    text = script.text
    for way in (b'if ARGV[3] == "exclusive" then', b"local ended = holds()"):
        text = text.replace(
            way, way.replace(b'ARGV[3] == "exclusive"', b"false").replace(b"holds()", b"false")
        )
    assert script.text != text
    return Text(script, text)


class Side(Bench):
    """One lock, or a set, on which one way of a script is tried."""

    def __init__(self, client: redis.Redis, name: str, ways: Callable[[Script], Script]) -> None:
        super().__init__(client, name)
        self._ways = ways
        self.names: Sequence[str] = ()

    def ask(self, script: Script, *argv: object) -> object:
        """Return the reply, or what the server refused with."""
        at_home = [word.format(self.prefix) if isinstance(word, str) else word for word in argv]
        try:
            reply = self.run(self._ways(script), "a", *at_home, names=self.names)
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
            return {self.plain(member) for member in self.client.zrange(key, 0, -1)}
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


PAIR = ("x", "y")


def pair(side: Side) -> None:
    """Two locks that nobody has."""
    side.names = PAIR


def pair_with_a_fence_ahead(side: Side) -> None:
    pair(side)
    fence = lock_keys(side.prefix, 0, "y").fence
    side.client.set(fence, 1_999_999_999_999_999, px=3_600_000)


def pair_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR)


def first_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR[:1], lease=30_000)


def second_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR[1:], lease=30_000)


def pair_held_and_waited_for(side: Side) -> None:
    pair_held(side)
    side.listen("b")
    side.queue_up("b", names=PAIR, wait=9_000)


def second_shared(side: Side) -> None:
    pair(side)
    side.acquire("reader", names=PAIR[1:], mode="shared")


def second_waited_for(side: Side) -> None:
    """The one that waits for it waits for another one, too, which is held."""
    pair(side)
    side.acquire("holder", names=("z",))
    side.listen("b")
    side.queue_up("b", names=("y", "z"))


def first_waited_for_by_the_dead(side: Side) -> None:
    """It is free, and the second one is held."""
    second_held(side)
    side.acquire("other", names=("z",))
    side.queue_up("dead", names=("x", "z"))


def pair_with_a_foreign(kind: str) -> Callable[[Side], None]:
    def put(side: Side) -> None:
        pair_held(side)
        side.keys = lock_keys(side.prefix, 0, "y")
        if kind == "fence":
            side.release("holder", names=PAIR)
        side.put_foreign(kind)

    put.__name__ = f"pair_with_a_foreign_{kind}"
    return put


def pair_ours(side: Side) -> None:
    pair(side)
    side.acquire("a", names=PAIR)


def pair_ours_and_wanted(
    *wanted: str, living: bool = True, mode: str = "exclusive"
) -> Callable[[Side], None]:
    def want(side: Side) -> None:
        pair_ours(side)
        if living:
            side.listen("b")
        side.queue_up("b", names=wanted, mode=mode)
        side.listen("c")
        side.queue_up("c", names=PAIR)

    dead = "" if living else "_dead"
    want.__name__ = f"pair_ours_and_{''.join(wanted)}_wanted_{mode}{dead}"
    return want


def pair_ours_in_part(side: Side) -> None:
    pair_ours(side)
    side.client.delete(lock_keys(side.prefix, 0, "y").holder)


def pair_shared(side: Side) -> None:
    pair(side)
    side.acquire("a", names=PAIR, mode="shared")


COMMANDS = (3, "SET", "{}data", "written", 2, "GET", "{}data")
FAILING = (2, "LPOP", "{}data", *COMMANDS, 3, "RPUSH", "{}data", "more")

SHORT = [
    (pair, scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_with_a_fence_ahead, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_held, scripts.ACQUIRE, ACQUIRE_NOW),
    (first_held, scripts.ACQUIRE, ACQUIRE_SOON),
    (pair_held_and_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_with_a_foreign("fence"), scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_ours, scripts.RELEASE, ()),
    (pair_ours_and_wanted(*PAIR), scripts.RELEASE, ()),
    (ours, scripts.COMMIT, COMMANDS),
    (ours, scripts.COMMIT, FAILING),
    (two_wait, scripts.COMMIT, COMMANDS),
    (pair_ours, scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR), scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR), scripts.COMMIT, FAILING),
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
    (second_held, scripts.ACQUIRE, ACQUIRE_NOW),
    (second_held, scripts.ACQUIRE, ACQUIRE_EVER),
    (first_waited_for_by_the_dead, scripts.ACQUIRE, ACQUIRE_EVER),
    (second_shared, scripts.ACQUIRE, ACQUIRE_NOW),
    (second_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_ours_and_wanted("x"), scripts.RELEASE, ()),
    (pair_ours_and_wanted("x", "y", "z"), scripts.RELEASE, ()),
    (pair_ours_and_wanted(*PAIR, living=False), scripts.RELEASE, ()),
    (pair_ours_and_wanted(*PAIR, mode="shared"), scripts.RELEASE, ()),
    (pair_ours_in_part, scripts.RELEASE, ()),
    (pair_shared, scripts.RELEASE, ()),
    (pair_ours_and_wanted("y"), scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR, living=False), scripts.COMMIT, FAILING),
    (pair_ours_in_part, scripts.COMMIT, COMMANDS),
    (pair_shared, scripts.COMMIT, FAILING),
    (nothing, scripts.COMMIT, COMMANDS),
    (the_first_is_dead, scripts.COMMIT, COMMANDS),
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
    how = argv[4] if script is scripts.ACQUIRE else len(argv)
    return f"{script.name}-{before.__name__}-{how}"


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


def test_a_set_that_cannot_join_one_queue_leaves_the_others(side: Callable[..., Side]) -> None:
    one = side(lambda script: script)
    pair_with_a_foreign("queue")(one)
    before = one.everything()
    assert "WRONGTYPE" in str(one.ask(scripts.ACQUIRE, *ACQUIRE_EVER))
    assert before == one.everything()
