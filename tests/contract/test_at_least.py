"""`at_least`: a lock stays closed for a while after its grant, however early it is released."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.db import transaction

from redis_locks import (
    DeadlockDetected,
    Lock,
    LockError,
    LockLost,
    LockNotAvailable,
    LockTimeout,
    Semaphore,
    inspection,
    redis_lock,
)
from redis_locks.testing import override_locks
from tests.elsewhere import in_thread, is_free
from tests.support.calls import lose_the_reply
from tests.support.world import PATIENCE, Observer, World, existing, granted, held


@pytest.fixture(autouse=True)
def open_in_the_end(name: str) -> Iterator[None]:
    yield
    inspection.force_release(name)


def closed_for(name: str) -> float:
    """Seconds for which the lock stays closed."""
    info = existing(name)
    return info.holders[0].lease_left


def test_an_early_release_keeps_the_lock_closed_and_the_refused_learn_until_when(name: str) -> None:
    with Lock(name, at_least=60):
        assert closed_for(name) > 55
    with pytest.raises(
        LockNotAvailable, match=r"stays closed for [56]\d\.\d s, until \d{4}-"
    ) as said:
        Lock(name, wait=0).__enter__()
    assert 55 < (said.value.retry_after or 0) <= 60
    with pytest.raises(LockTimeout, match="stays closed"):
        Lock(name, wait=0.05).__enter__()
    assert not is_free(name)


def test_who_waits_gets_it_when_the_time_is_over(world: World, name: str) -> None:
    lock = Lock(name, at_least=0.5)
    began = time.monotonic()
    world.block(lock, lambda hold: hold.check())
    world.block(Lock(name, wait=10), lambda hold: hold.check())
    assert time.monotonic() - began >= 0.5


def test_a_waiter_from_before_the_release_does_not_wait_for_the_lease(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, at_least=1, lease=60))
    waiting = world.start(world.block, Lock(name, wait=30), lambda _: time.monotonic())
    server_side.until_waiters(name, 1)
    world.release(hold)
    released = time.monotonic()
    assert waiting.result(PATIENCE) - released < 5  # in place of 6 s, when it asks by itself


async def _in_a_block(name: str) -> None:
    async with Lock(name, at_least=60):
        pass


def test_async_code_and_decorated_functions_close_as_well(name: str) -> None:
    asyncio.run(_in_a_block(name))
    assert closed_for(name) > 55
    inspection.force_release(name)

    @redis_lock(name, at_least=60, wait=0.1, on_conflict="skip")
    def report() -> str:
        return "ran"

    assert report() == "ran"
    assert report() is None


def test_a_force_release_opens_it(name: str) -> None:
    with Lock(name, at_least=60):
        pass
    assert inspection.force_release(name)
    assert is_free(name)


@pytest.mark.django_db(transaction=True)
def test_a_transaction_closes_it_after_commit(name: str) -> None:
    with transaction.atomic():
        with Lock(name, at_least=60):
            pass
        with Lock(name, at_least=60) as again:
            again.check()
    assert closed_for(name) > 55
    assert not is_free(name)


def test_nested_blocks_close_it_once_the_last_has_ended(name: str) -> None:
    lock = Lock(name, at_least=60)
    with lock, lock, Lock(name):
        assert inspection.lock(name).holders[0].label  # type: ignore[union-attr]
    assert closed_for(name) > 55
    assert not is_free(name)


def test_a_block_inside_one_that_would_open_it_is_refused(name: str) -> None:
    with Lock(name), pytest.raises(LockError, match="shorter at_least"):
        Lock(name, at_least=60).acquire()
    with (
        Lock(name, at_least=0.01),
        pytest.raises(LockError, match="at_least=60"),
        Lock(name, at_least=60),
    ):
        pass


def test_a_lost_reply_to_the_release_closes_it_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = granted(Lock(name, at_least=60).acquire())
    lose_the_reply(monkeypatch, "close")
    hold.release()
    assert closed_for(name) > 55


def test_a_closed_lock_is_no_part_of_a_deadlock(name: str) -> None:
    with Lock(name, at_least=1.5):
        pass
    began = time.monotonic()
    try:
        with Lock(f"{name}:other"), Lock(name, wait=10):  # this thread closed it
            assert time.monotonic() - began > 0.5
    except DeadlockDetected as error:  # pragma: no cover - what must not be
        pytest.fail(str(error))


def test_a_set_closes_all_its_locks(name: str) -> None:
    with Lock(name, f"{name}:b", at_least=60):
        pass
    assert not is_free(f"{name}:b")
    inspection.force_release(f"{name}:b")


def test_a_force_release_of_one_lock_of_a_set_leaves_the_others_closed(name: str) -> None:
    other = f"{name}:b"
    with pytest.raises(LockLost), Lock(name, other, at_least=60):
        inspection.force_release(other)
    assert closed_for(name) > 55
    assert is_free(other)


def test_what_would_open_it_early_is_refused(name: str, client: redis.Redis) -> None:
    with Lock(name, at_least=60) as hold:
        for ask in (hold.detach, hold.downgrade, lambda: hold.commit(client.pipeline())):
            with pytest.raises(LockError, match="has at_least"):
                ask()
        hold.check()


@pytest.mark.parametrize(
    "options",
    [
        {"at_least": 5, "mode": "shared"},
        {"at_least": 5, "crash_release": True},
        {"at_least": 5, "lease": 2},
        {"at_least": -1},
        {"at_least": 1e9},
        {"at_least": float("nan")},
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    for make in (Lock, redis_lock):
        with pytest.raises(ValueError, match="at_least"):
            make("name", **options)
    with pytest.raises(TypeError, match="at_least"):
        redis_lock("name", at_least="5")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="at_least"):
        Semaphore("name", 3, at_least=5)  # type: ignore[call-overload]


def test_a_test_without_a_server_is_never_kept_out(name: str) -> None:
    with override_locks("granted"):
        for _ in range(2):
            with Lock(name, at_least=60, wait=0):
                pass


def test_drains_and_alerts_leave_a_closed_lock_alone(name: str) -> None:
    with Lock(name, at_least=60):
        pass
    info = existing(name)
    assert info.holders[0].label.startswith("cooldown of ")
    drained = inspection.drain(info.holders[0].host, dry_run=True)
    assert name not in {holder.lock for holder in drained.holders}
    assert in_thread(Lock(name).acquire, wait=0) is None
