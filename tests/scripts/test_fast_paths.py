"""The short ways of acquire, release and commit of one lock come to the same end as the scripts without them."""

from __future__ import annotations

import pytest

from redis_locks import scripts
from tests.scripts.bench import WHO
from tests.scripts.short_ways import (
    ACQUIRE_EVER,
    ACQUIRE_NOW,
    ACQUIRE_SILENTLY,
    ACQUIRE_SOON,
    COMMANDS,
    FAILING,
    Case,
    Make,
    Side,
    check_that_both_end_alike,
    is_short,
    named,
    side,
)

__all__ = ["side"]


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


SHORT = [
    (ours, scripts.COMMIT, COMMANDS),
    (ours, scripts.COMMIT, FAILING),
    (two_wait, scripts.COMMIT, COMMANDS),
    (nothing, scripts.ACQUIRE, ACQUIRE_NOW),
    (nothing, scripts.ACQUIRE, ACQUIRE_EVER),
    (we_listen, scripts.ACQUIRE, ACQUIRE_SILENTLY),
    (we_listen_and_it_is_held, scripts.ACQUIRE, ACQUIRE_SILENTLY),
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
    (nothing, scripts.COMMIT, COMMANDS),
    (the_first_is_dead, scripts.COMMIT, COMMANDS),
    (ours, scripts.ACQUIRE, (*ACQUIRE_NOW[:-1], 0)),
    (nothing, scripts.ACQUIRE, (60_000, "shared", WHO, "nobody", 0, 1)),
    (we_listen_behind_the_dead, scripts.ACQUIRE, ACQUIRE_SILENTLY),
    (nothing, scripts.RELEASE, ()),
    (held, scripts.RELEASE, ()),
    (the_first_is_dead, scripts.RELEASE, ()),
    (all_are_dead, scripts.RELEASE, ()),
    (a_reader_waits, scripts.RELEASE, ()),
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
