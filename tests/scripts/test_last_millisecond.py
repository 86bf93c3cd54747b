"""A lease lasts to the end of its last millisecond, as Redis's keys do.

Its holder may count from later in it.
"""

from __future__ import annotations

import pytest

from redis_locks import scripts
from redis_locks.scripts import Script
from redis_locks.values.keys import set_keys
from tests.scripts.bench import WHO, Bench

EXCLUSIVE = """redis.call("HSET", KEYS[2], "holder", "a " .. string.format("%.0f", ends))"""
SHARED = """redis.call("ZADD", string.gsub(KEYS[2], "}:lock:", "}:sharers:", 1), ends, "a")"""
ENDS_NOW = """
local time = redis.call("TIME")
local ends = time[1] * 1000 + math.floor(time[2] / 1000)
"""
TRIES = 100
"""The clock of some servers goes on while a script runs, so the next millisecond may begin
meanwhile.
"""

MODES = pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:1"])


def at_the_end_of_the_lease(bench: Bench, script: Script, token: str, *argv: object) -> list[str]:
    """Return the words of a script's reply, in the millisecond in which the lease of "a" ends."""
    kept = EXCLUSIVE if bench.client.hexists(bench.keys.lock, "holder") else SHARED
    keys = set_keys(bench.prefix, 0, (bench.name,))
    text = ENDS_NOW + kept + script.text.decode()
    reply: bytes = bench.client.eval(text, len(keys), *keys, token, *argv)
    first, *words = reply.decode().split(" ")
    assert token == first
    return words


@MODES
@pytest.mark.parametrize("asked", ["exclusive", "permit:1"])
@pytest.mark.parametrize("first", [0, 1])
def test_nobody_is_let_in_before_it_has_ended(
    bench: Bench, mode: str, asked: str, first: int
) -> None:
    def refused() -> bool:
        bench.acquire("a", mode=mode)
        argv = (60_000, asked, WHO, "nobody", 0, first)
        granted, *_ = at_the_end_of_the_lease(bench, scripts.ACQUIRE, "b", *argv)
        bench.release("b")
        return granted == "0"

    assert any(refused() for _ in range(TRIES))


@MODES
def test_its_holder_can_extend_it_until_it_has_ended(bench: Bench, mode: str) -> None:
    def extended() -> bool:
        bench.acquire("a", mode=mode)
        held, *_ = at_the_end_of_the_lease(bench, scripts.EXTEND, "a", 60_000)
        return held == "1"

    assert any(extended() for _ in range(TRIES))
