"""Locks with long waits: who notes them, when, and for how long."""

from __future__ import annotations

import pytest

from redis_locks import scripts
from tests.scripts.bench import Bench
from tests.support import stored

LONG_MS = 2_000


def long_waits(bench: Bench, most: int = 10) -> list[tuple[str, int]]:
    _, *noted = bench.run(scripts.LONG_WAITS, "", most)
    return [(name.decode(), int(since)) for name, since in zip(*[iter(noted)] * 2, strict=True)]


def ask_again(bench: Bench, token: str, *, names: tuple[str, ...] = ()) -> None:
    bench.acquire(token, wait=-1, listener=token, names=names)


def test_a_waiter_that_asks_again_after_a_long_time_notes_since_when_it_waits(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("you")
    since = stored.age_wait(bench.client, bench.keys.lock, "you", LONG_MS)
    assert [] == long_waits(bench)
    ask_again(bench, "you")
    ask_again(bench, "you")
    assert [(bench.name, since)] == long_waits(bench)


def test_a_short_wait_is_not_noted(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("you")
    ask_again(bench, "you")
    assert [] == long_waits(bench)


def test_of_the_waiters_of_a_lock_the_oldest_counts(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("first", "second")
    oldest = stored.age_wait(bench.client, bench.keys.lock, "first", 2 * LONG_MS)
    stored.age_wait(bench.client, bench.keys.lock, "second", LONG_MS)
    ask_again(bench, "first")
    ask_again(bench, "second")
    assert [(bench.name, oldest)] == long_waits(bench)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_oldest_waits_come_first(bench: Bench, most: int) -> None:
    since = {}
    for place, name in enumerate(("a", "b", "c")):
        bench.acquire(f"holder-{name}", names=(name,))
        bench.queue_up(name, names=(name,))
        since[name] = stored.age_wait(
            bench.client, bench.lock_key(name), name, (place + 1) * LONG_MS
        )
        ask_again(bench, name, names=(name,))
    expected = [(name, since[name]) for name in ("c", "b", "a")]
    assert expected[:most] == long_waits(bench, most)


def test_a_wait_for_several_locks_is_noted_for_each(bench: Bench) -> None:
    bench.acquire("me", names=("b",))
    bench.queue_up("you", names=("a", "b"))
    for name in ("a", "b"):
        stored.age_wait(bench.client, bench.lock_key(name), "you", LONG_MS)
    ask_again(bench, "you", names=("a", "b"))
    assert {"a", "b"} == {name for name, _ in long_waits(bench)}


def test_what_was_noted_goes_by_itself_within_half_a_minute(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("you")
    stored.age_wait(bench.client, bench.keys.lock, "you", LONG_MS)
    before = bench.all_keys()
    ask_again(bench, "you")
    (noted,) = bench.all_keys() - before
    assert 8_000 < bench.client.pttl(noted) <= 24_000
    bench.client.delete(noted)
    assert [] == long_waits(bench)


def test_it_counts_the_locks_that_are_held_or_waited_for(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.acquire(name, names=(name,))
    assert [2] == bench.run(scripts.LONG_WAITS, "", 10)
