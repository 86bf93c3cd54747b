"""Acquire, release and commit come to the same end whether they take their early way out or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks import scripts
from tests.scripts.bench import WHO
from tests.scripts.short_ways import (
    ACQUIRE_EVER,
    ACQUIRE_LONG,
    ACQUIRE_NOW,
    ACQUIRE_SILENTLY,
    ACQUIRE_SOON,
    COMMANDS,
    FAILING,
    Case,
    Make,
    Side,
    check_that_both_end_alike,
    named,
    side,
    usual_of,
)

pytestmark = pytest.mark.ci

__all__ = ["side"]

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
    """The locks are kept for longer than the index that lists them, as somebody deleted the old one."""
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
    check_that_both_end_alike(side, case)


@pytest.mark.parametrize("case", BY_THE_USUAL_WAY, ids=named)
def test_the_usual_way_answers_the_usual_questions(side: Make, case: Case) -> None:
    before, script, argv = case
    one = side(usual_of)
    one.have_an_index()
    before(one)
    assert "not by the usual way" not in str(one.ask(script, *argv))
