"""What locks that are described alike work out once."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest

from redis_locks import Lock, Semaphore, redis_lock
from redis_locks.keys import MOST_KEPT
from redis_locks.plans import _MOST, Plan, Terms, _plans
from redis_locks.sides import Side


def plan_of(lock: Lock) -> Plan:
    plan = lock._planned(Side.blocking(None))
    assert plan is not None
    return plan


def test_locks_described_alike_are_asked_for_alike(name: str) -> None:
    one, another = (plan_of(redis_lock(name, lease=5, read=[("GET", read)])) for read in "ab")
    assert one is another
    assert one.terms is plan_of(redis_lock(f"{name}-2", lease=5)).terms


@pytest.mark.parametrize(
    "other",
    [
        lambda name: Lock(name, lease=6),
        lambda name: Lock(name, lease=5, renew=False),
        lambda name: Lock(name, lease=5, label="label"),
        lambda name: Lock(name, lease=5, replicas=1),
        lambda name: Lock(name, lease=5, crash_release=True),
        lambda name: Lock(f"{name}-2", lease=5),
    ],
)
def test_locks_described_otherwise_are_not(name: str, other: Any) -> None:
    assert plan_of(Lock(name, lease=5)) is not plan_of(other(name))


def test_what_is_no_part_of_a_plan_may_differ(name: str) -> None:
    """Semaphores and locks say in each request how they are held."""
    for lock, mode in (
        (Semaphore(name, 2, lease=5), "permit:2"),
        (Semaphore(name, 3, lease=5), "permit:3"),
        (redis_lock(name, lease=5), "exclusive"),
    ):
        with lock as hold:
            assert mode == hold.mode
    assert plan_of(Semaphore(name, 3, lease=5)) is plan_of(redis_lock(name, lease=5))


def test_other_settings_make_other_plans(name: str, settings: Any) -> None:
    before = plan_of(Lock(name))
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "LEASE": 77}
    after = plan_of(Lock(name))
    assert [77_000, False] == [after.terms.lease_ms, after.terms is before.terms]


def test_few_plans_are_kept_and_none_of_large_sets(name: str) -> None:
    for number in range(_MOST + 10):
        plan_of(Lock(f"{name}-{number}", lease=5.5 + number % 3))
    assert 0 < len(_plans) <= _MOST
    large = plan_of(Lock(*(f"{name}-{number}" for number in range(MOST_KEPT)), lease=5.5))
    assert large not in _plans.values()


def terms_alive() -> int:
    return sum(type(each) is Terms for each in gc.get_objects())


def test_what_is_no_more_used_goes_away_at_once(name: str) -> None:
    """Not when the collector of cycles comes by, as it would if terms and plans kept each other."""
    gc.collect()
    before = terms_alive()
    gc.disable()
    try:
        plan_of(copy.copy(Lock(name)))
        assert before + 1 == terms_alive()
        _plans.clear()
        assert terms_alive() <= before
    finally:
        gc.enable()
