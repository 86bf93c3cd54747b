"""Circles through permits: they are in the way only if none will ever be to spare."""

from __future__ import annotations

from time import sleep

import pytest

from tests.scripts.bench import Bench
from tests.scripts.test_detect import X, detect

S = ("s",)


def permits(bench: Bench, *tokens: str, capacity: int) -> None:
    for token in tokens:
        assert "1" == bench.acquire(token, names=S, mode=f"permit:{capacity}")[0]


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_wait_for_a_permit_is_a_dead_end_when_all_who_have_one_are_stuck(
    bench: Bench, capacity: int
) -> None:
    """A has x and wants a permit; one after the other all who have one come to want x."""
    bench.acquire("A.1", names=X)
    holders = [f"{letter}.1" for letter in "PQR"[:capacity]]
    permits(bench, *holders, capacity=capacity)
    mode = f"permit:{capacity}"
    bench.stand("A.2", S, mode)
    assert "0" == detect(bench, "A.2", S, mode=mode)
    for holder in holders:
        waiter = holder.replace("1", "2")
        bench.stand(waiter, X)
        expected = "1" if holder == holders[-1] else "0"
        assert expected == detect(bench, waiter, X)


@pytest.mark.parametrize(("theirs", "wanted"), [(1, 2), (2, 1)])
def test_the_smallest_capacity_of_the_stuck_and_the_waiter_counts(
    bench: Bench, theirs: int, wanted: int
) -> None:
    """P's permit is the only one that is out, and one of the two allows no second one."""
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", capacity=theirs)
    bench.stand("A.2", S, f"permit:{wanted}")
    assert "0" == detect(bench, "A.2", S, mode=f"permit:{wanted}")
    bench.stand("P.2", X)
    assert "1" == detect(bench, "P.2", X)


def test_who_waits_for_a_permit_that_it_has_itself_waits_for_ever(bench: Bench) -> None:
    permits(bench, "A.1", capacity=1)
    bench.stand("A.2", S, "permit:1")
    assert "1" == detect(bench, "A.2", S, mode="permit:1")


def test_permits_are_in_the_way_of_who_wants_the_lock_alone(bench: Bench) -> None:
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", "Q.1", capacity=3)
    bench.stand("P.2", X)
    assert "0" == detect(bench, "P.2", X)
    bench.stand("A.2", S)
    assert "1" == detect(bench, "A.2", S)


def test_a_permit_to_spare_ends_a_circle_of_those_before_it_in_queue_too(bench: Bench) -> None:
    """A stands behind W for a permit that Q gives back some day, though P waits for A."""
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", "Q.1", capacity=2)
    bench.stand("W.1", S, "permit:2")
    bench.stand("P.2", X)
    assert "0" == detect(bench, "P.2", X)
    bench.stand("A.2", S, "permit:2")
    assert "0" == detect(bench, "A.2", S, mode="permit:2")
    bench.release("Q.1", names=S)  # W has its permit
    assert "0" == detect(bench, "A.2", S, mode="permit:2")
    bench.stand("W.2", X)
    assert "1" == detect(bench, "W.2", X)


def test_a_permit_of_the_dead_is_to_be_had_when_its_lease_ends(bench: Bench) -> None:
    """P and D have the permits and wait for A's x; A wants one of them.

    D is dead, so A goes on after all.
    """
    bench.acquire("A.1", names=X)
    for token, lease in (("P.1", 60_000), ("D.1", 90_000)):
        bench.acquire(token, names=S, mode="permit:2", lease=lease)
    bench.stand("P.2", X)
    dying = bench.stand("D.2", X)
    sleep(0.002)
    bench.stand("A.2", S, "permit:2")
    for token in ("P.2", "D.2"):
        assert "0" == detect(bench, token, X)
    bench.die(dying)
    assert "0" == detect(bench, "A.2", S, mode="permit:2")
    bench.release("D.1", names=S)
    assert "A.2" in bench.holders("s")
