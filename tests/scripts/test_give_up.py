from __future__ import annotations

from itertools import pairwise

from tests.scripts.bench import Bench


def test_a_grant_that_crossed_the_leaving_is_handed_on(bench: Bench) -> None:
    bench.listen("b")
    heard = bench.listen("c")
    bench.acquire("a")
    bench.queue_up("b", "c")
    bench.release("a")
    _, _, fence, *_ = bench.give_up("b")
    assert ["c", fence] == (bench.heard(heard) or [])[:2]
    assert ("c", []) == (bench.holder(), bench.queued())


def test_a_grant_that_crossed_the_leaving_of_the_only_waiter_frees_the_lock(bench: Bench) -> None:
    bench.acquire("a")
    bench.stand("b")
    bench.release("a")
    assert "0" == bench.give_up("b")[1]
    assert bench.is_idle()


def test_leaving_a_lock_whose_lease_ended_hands_it_on(bench: Bench) -> None:
    bench.listen("c")
    bench.acquire("a")
    bench.queue_up("b", "c")
    bench.end_lease()
    bench.give_up("b")
    assert "c" == bench.holder()


def test_behind_places_that_were_given_up_the_next_one_is_found(bench: Bench) -> None:
    bench.acquire("a")
    for token in "bcde":
        bench.listen(token)
    bench.queue_up(*"bcde")
    bench.give_up("c")
    bench.give_up("d")
    for holder, next_one in pairwise("abe"):
        assert bench.release(holder)
        assert next_one == bench.holder()
