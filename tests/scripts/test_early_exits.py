"""Acquire, release and commit come to the same end whether they take their early way out or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.scripts import Script
from tests.scripts.bench import FOR_EVER, WHO, Bench

pytestmark = pytest.mark.ci

NEAR = 2_000
"""Milliseconds by which two expiries may differ that were set for the same reason."""


class Text(Script):
    def __init__(self, script: Script, text: bytes) -> None:
        super().__init__(script.name)
        self.text = text


WAYS = {
    b'if ARGV[7] ~= "0" and ARGV[3] == "exclusive" then': b"if false then",
    b"local states, alone, waited_for = {}, true, false": (
        b"local states, alone, waited_for = {}, false, false"
    ),
}
"""Where an early way out begins, and how it is barred."""


def long_of(script: Script) -> Script:
    """A script that never takes its early way out."""
    text = script.text
    (way,) = (way for way in WAYS if way in text)
    assert 1 == text.count(way)
    return Text(script, text.replace(way, WAYS[way]))


USUAL_ENDS = b"-- What the server keeps of a lock"
"""What stands behind the usual way of a script."""


def usual_of(script: Script) -> Script:
    """A script that fails where the way of the original goes on behind the usual one."""
    usual, end, _ = script.text.partition(USUAL_ENDS)
    assert end
    return Text(script, usual + b'error({ err = "ERR not by the usual way" })')


class Side(Bench):
    """One lock, or a set, on which one way of a script is tried."""

    def __init__(self, client: redis.Redis, name: str, ways: Callable[[Script], Script]) -> None:
        super().__init__(client, name)
        self._ways = ways
        self.names: Sequence[str] = ()

    def have_an_index(self) -> None:
        """Have an index that need not live longer: only the long way lengthens it."""
        self.acquire("earlier", names=("earlier",), lease=120_000)
        self.release("earlier", names=("earlier",))

    def ask(self, script: Script, *argv: object) -> object:
        """Return the reply, or what the server refused with."""
        at_home = [word.format(self.prefix) if isinstance(word, str) else word for word in argv]
        try:
            reply = self.run(self._ways(script), "a", *at_home, names=self.names)
        except ResponseError as error:
            return self.plain(str(error).encode())
        return self.plain(reply)

    def plain(self, value: bytes) -> str:
        """Return a value without what differs from one lock and one moment to the next."""
        text = value.decode().replace(self.name, "NAME")
        text = re.sub(r" script: .*", "", text)  # where in the script
        return re.sub(r"\b1\d{12,15}\b", lambda found: f"<{len(found[0])} digits>", text)

    def all_of_it(self) -> dict[str, tuple[object, int]]:
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
ACQUIRE_SILENTLY = (60_000, "exclusive", WHO, "ours", 5_000, 2)
ACQUIRE_EVER = (60_000, "exclusive", WHO, "nobody", FOR_EVER, 1)
ACQUIRE_LONG = (1_200_000, "exclusive", WHO, "nobody", FOR_EVER, 1)

COMMANDS = (3, "SET", "{}data", "written", 2, "GET", "{}data")
FAILING = (2, "LPOP", "{}data", *COMMANDS, 3, "RPUSH", "{}data", "more")

Case = tuple[Callable[[Side], None], Script, tuple[object, ...]]


def named(case: Case) -> str:
    before, script, argv = case
    how = argv[4] if script is scripts.ACQUIRE else len(argv)
    return f"{script.name}-{before.__name__}-{how}"


Make = Callable[[Callable[[Script], Script]], Side]


@pytest.fixture
def side(client: redis.Redis, name: str) -> Iterator[Make]:
    made: list[Side] = []

    def make(ways: Callable[[Script], Script]) -> Side:
        made.append(Side(client, f"{name}-{len(made)}", ways))
        return made[-1]

    yield make
    for each in made:
        each.close()


AHEAD = 1_999_999_999_999_999
PAIR = ("x", "y")


def nothing(side: Side) -> None:
    pass


def we_listen(side: Side) -> None:
    side.listen("ours")


def we_listen_behind_the_dead(side: Side) -> None:
    we_listen(side)
    all_are_dead(side)
    side.end_lease()


def we_listen_and_it_is_held(side: Side) -> None:
    we_listen(side)
    held(side)


def fence_ahead(side: Side) -> None:
    """The clock was ahead when the lock was granted last."""
    side.set_fence(AHEAD)


def held(side: Side) -> None:
    side.acquire("holder", lease=30_000)


def held_and_waited_for(side: Side) -> None:
    held(side)
    side.stand("b", wait=9_000)


def ours(side: Side) -> None:
    side.acquire("a")


def two_wait(side: Side) -> None:
    ours(side)
    for token in "bc":
        side.stand(token)


def all_are_dead(side: Side) -> None:
    ours(side)
    side.queue_up("dead", "gone")


def a_reader_waits(side: Side) -> None:
    ours(side)
    side.stand("b", mode="shared")


def foreign_lock(side: Side) -> None:
    side.put_foreign("lock")


def pair(side: Side) -> None:
    """Two locks that nobody has."""
    side.names = PAIR


def pair_with_a_fence_ahead(side: Side) -> None:
    pair(side)
    side.set_fence(AHEAD, "y")


def pair_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR)


def pair_held_in_a_new_index(side: Side) -> None:
    """The locks outlive the index that lists them, as somebody deleted the old one."""
    pair(side)
    side.acquire("earlier", names=PAIR, lease=3_600_000)
    side.release("earlier", names=PAIR)
    side.client.delete(side.index_key)
    side.acquire("holder", names=PAIR, lease=1_000)


def first_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR[:1], lease=30_000)


def second_held(side: Side) -> None:
    pair(side)
    side.acquire("holder", names=PAIR[1:], lease=30_000)


def pair_held_and_waited_for(side: Side) -> None:
    pair_held(side)
    side.stand("b", names=PAIR, wait=9_000)


def second_shared(side: Side) -> None:
    pair(side)
    side.acquire("reader", names=PAIR[1:], mode="shared")


def second_waited_for(side: Side) -> None:
    """The one that waits for it waits for another one, too, which is held."""
    pair(side)
    side.acquire("holder", names=("z",))
    side.stand("b", names=("y", "z"))


def first_waited_for_by_the_dead(side: Side) -> None:
    """It is free, and the second one is held."""
    second_held(side)
    side.acquire("other", names=("z",))
    side.queue_up("dead", names=("x", "z"))


def pair_ours(side: Side) -> None:
    pair(side)
    side.acquire("a", names=PAIR)


def pair_ours_and_wanted(*wanted: str, living: bool = True) -> Callable[[Side], None]:
    def want(side: Side) -> None:
        pair_ours(side)
        if living:
            side.listen("b")
        side.queue_up("b", names=wanted)
        side.stand("c", names=PAIR)

    want.__name__ = f"pair_ours_and_{''.join(wanted)}_wanted{'' if living else '_dead'}"
    return want


def ours_ended_and_shared_since(side: Side) -> None:
    """Our lease has ended, somebody shares the lock, and somebody waits for it."""
    ours(side)
    side.end_lease()
    side.acquire("reader", mode="shared")
    side.stand("b")


def pair_ours_in_part(side: Side) -> None:
    pair_ours(side)
    side.drop_holder("y")


def pair_shared(side: Side) -> None:
    pair(side)
    side.acquire("a", names=PAIR, mode="shared")


BY_THE_USUAL_WAY = [
    (nothing, scripts.ACQUIRE, ACQUIRE_NOW),
    (nothing, scripts.ACQUIRE, ACQUIRE_EVER),
    (we_listen, scripts.ACQUIRE, ACQUIRE_SILENTLY),
    (fence_ahead, scripts.ACQUIRE, ACQUIRE_NOW),
    (held, scripts.ACQUIRE, ACQUIRE_NOW),
    (held, scripts.ACQUIRE, ACQUIRE_SOON),
    (we_listen_and_it_is_held, scripts.ACQUIRE, ACQUIRE_SILENTLY),
    (held_and_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair, scripts.ACQUIRE, ACQUIRE_NOW),
    (first_held, scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_held, scripts.ACQUIRE, ACQUIRE_SOON),
    (pair_held_and_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (ours, scripts.RELEASE, ()),
    (two_wait, scripts.RELEASE, ()),
    (pair_ours, scripts.RELEASE, ()),
    (pair_ours_and_wanted(*PAIR), scripts.RELEASE, ()),
    (ours, scripts.COMMIT, COMMANDS),
    (two_wait, scripts.COMMIT, COMMANDS),
    (pair_ours, scripts.COMMIT, COMMANDS),
]

CASES = [
    *BY_THE_USUAL_WAY,
    (nothing, scripts.ACQUIRE, (60_000, "shared", WHO, "nobody", 0, 1)),
    (we_listen_behind_the_dead, scripts.ACQUIRE, ACQUIRE_SILENTLY),
    (held, scripts.ACQUIRE, ACQUIRE_EVER),
    (held_and_waited_for, scripts.ACQUIRE, ACQUIRE_NOW),
    (held_and_waited_for, scripts.ACQUIRE, ACQUIRE_SOON),
    (foreign_lock, scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_with_a_fence_ahead, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_held, scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_held, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_held_in_a_new_index, scripts.ACQUIRE, ACQUIRE_LONG),
    (first_held, scripts.ACQUIRE, ACQUIRE_SOON),
    (second_held, scripts.ACQUIRE, ACQUIRE_EVER),
    (second_shared, scripts.ACQUIRE, ACQUIRE_NOW),
    (second_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (first_waited_for_by_the_dead, scripts.ACQUIRE, ACQUIRE_EVER),
    (nothing, scripts.RELEASE, ()),
    (held, scripts.RELEASE, ()),
    (all_are_dead, scripts.RELEASE, ()),
    (a_reader_waits, scripts.RELEASE, ()),
    (ours_ended_and_shared_since, scripts.RELEASE, ()),
    (ours_ended_and_shared_since, scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR, living=False), scripts.RELEASE, ()),
    (pair_ours_and_wanted("x"), scripts.RELEASE, ()),
    (pair_ours_in_part, scripts.RELEASE, ()),
    (pair_shared, scripts.RELEASE, ()),
    (nothing, scripts.COMMIT, COMMANDS),
    (ours, scripts.COMMIT, FAILING),
    (pair_ours_and_wanted("y"), scripts.COMMIT, COMMANDS),
    (pair_ours_in_part, scripts.COMMIT, COMMANDS),
    (pair_shared, scripts.COMMIT, FAILING),
]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_both_ways_end_alike(side: Make, case: Case) -> None:
    before, script, argv = case
    found = []
    for ways in (lambda script: script, long_of):
        one = side(ways)
        one.have_an_index()
        before(one)
        reply = one.ask(script, *argv)
        if argv is ACQUIRE_SILENTLY:
            reply = None  # nobody reads it
        messages = [one.heard(each) for each in one._subscriptions]
        told = [each and [one.plain(word.encode()) for word in each] for each in messages]
        found.append((reply, told, one.all_of_it()))
    (reply, told, short), (as_long_reply, as_long_told, long) = found
    assert (as_long_reply, as_long_told) == (reply, told)
    assert {key: value for key, (value, _) in long.items()} == {
        key: value for key, (value, _) in short.items()
    }
    assert {key: pytest.approx(expires, abs=NEAR) for key, (_, expires) in long.items()} == {
        key: expires for key, (_, expires) in short.items()
    }


@pytest.mark.parametrize("case", BY_THE_USUAL_WAY, ids=named)
def test_the_usual_way_answers_the_usual_questions(side: Make, case: Case) -> None:
    before, script, argv = case
    one = side(usual_of)
    one.have_an_index()
    before(one)
    assert "not by the usual way" not in str(one.ask(script, *argv))
