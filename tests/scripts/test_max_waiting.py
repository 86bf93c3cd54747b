"""A queue with a bound: who is refused, and who counts."""

from __future__ import annotations

from tests.scripts.bench import FOR_EVER, Bench
from tests.support.world import until

FULL = "5"


def ask(bench: Bench, token: str, most: int) -> str:
    return bench.acquire(token, wait=FOR_EVER, listener=token, max_waiting=most)[0]


def test_who_does_not_wait_is_never_told_that_it_is_full(bench: Bench) -> None:
    bench.acquire("holder")
    bench.queue_up("a")
    assert "0" == bench.acquire("b", wait=0, max_waiting=1)[0]


def test_who_stands_in_line_asks_again_and_stays(bench: Bench) -> None:
    bench.acquire("holder")
    bench.queue_up("a")
    assert "0" == ask(bench, "a", 1)
    assert FULL == ask(bench, "b", 1)


def test_who_has_lost_its_place_is_refused_as_a_newcomer(bench: Bench) -> None:
    bench.acquire("holder")
    assert "0" == ask(bench, "a", 1)
    bench.give_up("a")
    bench.queue_up("b")
    assert FULL == ask(bench, "a", 1)


def test_the_dead_in_front_of_a_free_lock_do_not_count(bench: Bench) -> None:
    bench.acquire("holder", lease=500)
    bench.queue_up("dead", "dead2")
    assert FULL == ask(bench, "a", 1)
    until(
        lambda: ask(bench, "a", 1) == "1"
    )  # the lease has ended, and nobody has handed the lock on


def test_the_dead_in_front_of_sharers_do_not_count(bench: Bench) -> None:
    bench.acquire("sharer", mode="shared")
    bench.queue_up("dead")
    bench.listen("a")
    assert "0" == ask(bench, "a", 1)
    assert FULL == ask(bench, "b", 1)
