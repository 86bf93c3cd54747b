"""The short ways of acquire, release and commit of a set come to the same end as the scripts without them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks import scripts
from redis_locks.values.keys import lock_keys
from tests.scripts.short_ways import (
    ACQUIRE_EVER,
    ACQUIRE_NOW,
    ACQUIRE_SOON,
    COMMANDS,
    FAILING,
    Case,
    Make,
    Side,
    check_that_both_end_alike,
    is_short,
    long_of,
    named,
    side,
)

__all__ = ["side"]


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


SHORT = [
    (pair, scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_with_a_fence_ahead, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_held, scripts.ACQUIRE, ACQUIRE_NOW),
    (first_held, scripts.ACQUIRE, ACQUIRE_SOON),
    (pair_held_and_waited_for, scripts.ACQUIRE, ACQUIRE_EVER),
    (pair_with_a_foreign("fence"), scripts.ACQUIRE, ACQUIRE_NOW),
    (pair_ours, scripts.RELEASE, ()),
    (pair_ours_and_wanted(*PAIR), scripts.RELEASE, ()),
    (pair_ours, scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR), scripts.COMMIT, COMMANDS),
    (pair_ours_and_wanted(*PAIR), scripts.COMMIT, FAILING),
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
]


@pytest.mark.parametrize("case", SHORT, ids=named)
def test_the_short_way_is_taken(side: Make, case: Case) -> None:
    assert is_short(side, case)


@pytest.mark.parametrize("case", LEFT_TO_THE_REST, ids=named)
def test_what_is_not_plain_is_left_to_the_rest(side: Make, case: Case) -> None:
    assert not is_short(side, case)


@pytest.mark.parametrize("case", SHORT + LEFT_TO_THE_REST, ids=named)
def test_both_ways_end_alike(side: Make, case: Case) -> None:
    check_that_both_end_alike(side, case)


def test_a_set_that_cannot_join_one_queue_leaves_the_others(side: Make) -> None:
    one = side(lambda script: script)
    pair_with_a_foreign("queue")(one)
    before = one.everything()
    assert "WRONGTYPE" in str(one.ask(scripts.ACQUIRE, *ACQUIRE_EVER))
    assert before == one.everything()


def commands(side: Side) -> int:
    """How many the server has run, those of scripts as well."""
    return sum(each["calls"] for each in side.client.info("commandstats").values())


@pytest.mark.parametrize(
    "case",
    [
        (pair, scripts.ACQUIRE, ACQUIRE_NOW),
        (pair_ours, scripts.COMMIT, COMMANDS),
        (pair_ours_and_wanted(*PAIR), scripts.COMMIT, COMMANDS),
    ],
    ids=named,
)
def test_the_short_way_takes_fewer_commands(side: Make, case: Case) -> None:
    before, script, argv = case
    taken = []
    for ways in (lambda script: script, long_of):
        one = side(ways)
        before(one)
        start = commands(one)
        one.ask(script, *argv)
        taken.append(commands(one) - start)
    short, long = taken
    assert short <= 0.7 * long
