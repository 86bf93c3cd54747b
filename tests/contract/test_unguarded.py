"""on_unavailable="proceed": where Redis cannot be asked, the work goes on without the lock, and says so."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.db.transaction import atomic

from redis_locks import Lock, LockBackendError, Semaphore, redis_lock
from redis_locks.rows import lock_model, lock_rows
from redis_locks.testing.server import EmbeddedServer
from tests.ledger.models import Counter
from tests.support.interrupts import open_here
from tests.support.world import World, held

NOWHERE = "unix:///nonexistent/redis.sock"


def proceeding(*names: str, **options: Any) -> Lock:
    return Lock(*names, using=NOWHERE, on_unavailable="proceed", **options)


@pytest.fixture
def nowhere(settings: Any) -> None:
    """No lock can be asked for, and the settings say to go on without."""
    settings.REDIS_LOCKS = {"CONNECTION": NOWHERE, "ON_UNAVAILABLE": "proceed"}


def test_the_block_runs_and_its_hold_says_that_it_guards_nothing(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold = held(world, proceeding(name, label="the job"))
    assert (True, False, 0, name) == (
        hold.is_unguarded,
        hold.is_lost,
        hold.fencing_token,
        hold.name,
    )
    hold.check()
    world.do(hold, "extend", 5)
    assert "unguarded" in repr(hold)
    world.release(hold)
    (line,) = [
        record
        for record in caplog.records
        if record.levelno == logging.ERROR and record.name == "redis_locks"
    ]
    assert re.search(rf"Lock '{name}' .*runs without it: .*nonexistent", line.getMessage())


def test_an_interrupt_as_the_log_is_told_leaves_no_hold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(logging.Logger, "handle", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            proceeding(name).acquire()
    assert caught.tb  # which refers to the hold
    assert 0 == open_here(name)


def test_a_hold_of_a_lock_is_guarded(world: World, name: str) -> None:
    hold = held(world, Lock(name, on_unavailable="proceed"))
    assert not hold.is_unguarded
    assert hold.fencing_token > 0
    world.release(hold)


def test_others_are_not_excluded_and_nested_holds_ask_no_more(world: World, name: str) -> None:
    first = held(world, proceeding(name))
    second = held(world, proceeding(name, mode="shared"))
    assert first.is_unguarded
    assert second.is_unguarded
    world.do(second, "upgrade", wait=0)
    world.release(second)
    world.release(first)


def test_a_nested_block_asks_for_no_replicas_of_what_is_unguarded(name: str) -> None:
    lock = proceeding(name, replicas=1)
    with lock, lock as inner:
        assert inner.is_unguarded


def test_what_only_a_server_can_do_is_refused(world: World, name: str) -> None:
    hold = held(world, proceeding(name))
    with pytest.raises(LockBackendError, match="is not held, as Redis could not be asked"):
        world.do(hold, "commit", [("SET", "a", 1)])
    with pytest.raises(LockBackendError, match="is not held, as Redis could not be asked"):
        world.do(hold, "detach")
    with pytest.raises(LockBackendError):
        world.acquire(proceeding(name, read=[("GET", "a")]))
    world.release(hold)
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using=NOWHERE))


def test_sets_and_permits_proceed_too(world: World, name: str, nowhere: None) -> None:
    for lock in (Lock(name, f"{name}:2"), Semaphore(name, 2)):
        hold = held(world, lock)
        assert hold.is_unguarded
        assert lock.name == hold.name
        world.release(hold)


def test_a_server_that_goes_away_meanwhile_does_not_let_the_block_begin_twice(
    private_server: EmbeddedServer, world: World, name: str
) -> None:
    lock = Lock(name, using=private_server.url, on_unavailable="proceed")
    hold = held(world, lock)
    assert not hold.is_unguarded
    world.release(hold)
    private_server.kill()
    hold = held(world, lock)
    assert hold.is_unguarded
    world.release(hold)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_transaction_commits_what_was_done_without_the_lock(
    nowhere: None, name: str, replicas: int
) -> None:
    with atomic():
        with redis_lock(name, replicas=replicas) as hold:
            assert hold.is_unguarded
            Counter.objects.create()
        with redis_lock(name, replicas=replicas) as again:
            assert again is hold
    assert 1 == Counter.objects.count()


@pytest.mark.django_db
def test_rows_and_models_never_proceed(nowhere: None) -> None:
    with pytest.raises(LockBackendError), lock_model(Counter):
        pass
    with pytest.raises(LockBackendError), lock_rows(Counter.objects.create()):
        pass
