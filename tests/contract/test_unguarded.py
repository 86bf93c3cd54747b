"""on_unavailable="proceed": where Redis cannot be asked, work goes on unlocked, and says so."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.db.transaction import atomic

from redis_locks import Hold, Lock, LockBackendError, Semaphore, redis_lock
from redis_locks.rows import lock_model, lock_rows
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import is_free
from tests.ledger.models import Counter
from tests.support import calls
from tests.support.events import write_summaries
from tests.support.interrupts import open_here
from tests.support.world import Tasks, World, granted, held

NOWHERE = "unix:///nonexistent/redis.sock"


def proceeding(*names: str, **options: Any) -> Lock:
    return Lock(*names, using=NOWHERE, on_unavailable="proceed", **options)


@pytest.fixture(autouse=True)
def _fresh_log() -> None:
    """No line of another test's stands for those of this one."""
    write_summaries()


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


def test_others_are_not_excluded_and_nested_holds_ask_no_more(world: World, name: str) -> None:
    first = held(world, proceeding(name))
    second = held(world, proceeding(name, mode="shared"))
    assert first.is_unguarded
    assert second.is_unguarded
    world.do(second, "upgrade", wait=0)
    world.release(second)
    world.release(first)


@pytest.mark.parametrize(
    "options",
    [
        {"on_unavailable": "raise"},
        {"on_unavailable": "respond"},
        {"on_unavailable": "raise", "mode": "shared"},
        {"on_unavailable": "raise", "reentrant": False},
    ],
)
def test_a_lock_that_does_not_proceed_raises_inside_an_unguarded_hold(
    world: World, name: str, options: Any
) -> None:
    outer, inner = proceeding(name), Lock(name, using=NOWHERE, **options)

    async def in_task() -> Hold | None:
        async with outer:
            with pytest.raises(LockBackendError):
                await inner.aacquire()
            return await outer.aacquire()

    def in_thread() -> Hold | None:
        with outer:
            with pytest.raises(LockBackendError):
                inner.acquire()
            return outer.acquire()

    again = world.run(in_task()) if isinstance(world, Tasks) else in_thread()
    assert again.is_unguarded
    world.release(again)


def test_a_lock_that_does_not_proceed_is_held_once_the_server_is_back(
    private_server: EmbeddedServer, name: str
) -> None:
    lock = Lock(name, using=private_server.url, on_unavailable="proceed")
    private_server.kill()
    with lock as outer:
        private_server.restart()
        with Lock(name, using=private_server.url, on_unavailable="raise") as inner, lock as again:
            assert inner.token == again.token
            assert not inner.is_unguarded
        with lock as again:
            assert outer.token == again.token
            assert again.is_unguarded


def test_a_real_hold_is_found_beneath_one_that_guards_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lock(name, mode="shared") as outer:
        with monkeypatch.context() as server:
            calls.refuse(server, "acquire")
            unguarded = Lock(name, on_unavailable="proceed").acquire()
        assert unguarded is not None
        assert unguarded.is_unguarded
        with Lock(name) as inner:
            assert (outer.token, "exclusive", False) == (
                inner.token,
                inner.mode,
                inner.is_unguarded,
            )
        unguarded.release()


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


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_does_not_proceed_raises_where_its_transaction_went_on_without_it(
    name: str,
) -> None:
    with atomic():
        first = proceeding(name).acquire()
        with pytest.raises(LockBackendError):
            Lock(name, using=NOWHERE, on_unavailable="raise").acquire()
        assert proceeding(name).acquire() is first


@pytest.mark.django_db(transaction=True)
def test_a_transaction_keeps_the_lock_that_it_gets_once_the_server_is_back(
    private_server: EmbeddedServer, name: str
) -> None:
    lock = Lock(name, using=private_server.url, on_unavailable="raise")
    private_server.kill()
    with atomic():
        first = granted(Lock(name, using=private_server.url, on_unavailable="proceed").acquire())
        assert first.is_unguarded
        private_server.restart()
        second = granted(lock.acquire())
        assert not second.is_unguarded
        assert lock.acquire() is second
        assert not is_free(name, using=private_server.url)
    assert is_free(name, using=private_server.url)


@pytest.mark.django_db
def test_rows_and_models_never_proceed(nowhere: None) -> None:
    with pytest.raises(LockBackendError), lock_model(Counter):
        pass
    with pytest.raises(LockBackendError), lock_rows(Counter.objects.create()):
        pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ["auto", "block"])
def test_rows_and_models_join_no_hold_that_guards_nothing(nowhere: None, scope: Any) -> None:
    row = Counter.objects.create()
    model = "ledger.Counter@default"
    with atomic(), Lock(model, scope=scope), Lock(f"{model}:{row.pk}", scope=scope):
        with pytest.raises(LockBackendError):
            lock_model(Counter).__enter__()
        with pytest.raises(LockBackendError):
            lock_rows(row).__enter__()
