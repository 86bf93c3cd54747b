"""What comes of a call of a script that takes its early way out, and of one that may not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.scripts import Script
from tests.scripts.bench import FOR_EVER, WHO, Bench

NEAR = 2_000
"""Milliseconds by which two expiries may differ that were set for the same reason."""


class Text(Script):
    def __init__(self, script: Script, text: bytes) -> None:
        super().__init__(script.name)
        self.text = text


WAYS = {
    b'if ARGV[7] ~= "0" and ARGV[3] == "exclusive" then': b"if false then",
    b"local states, alone, waited_for = {}, true, false": b"local states, alone, waited_for = {}, false, false",
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


def usual_part_of(script: Script) -> bytes:
    """Return the text of a script up to the end of its usual way."""
    usual, end, _ = script.text.partition(USUAL_ENDS)
    assert end
    return usual


def usual_of(script: Script) -> Script:
    """A script that fails where the way of the original goes on behind the usual one."""
    return Text(script, usual_part_of(script) + b'error({ err = "ERR not by the usual way" })')


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


def check_that_both_end_alike(side: Make, case: Case) -> None:
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
