"""A hold taken inside a transaction is kept until that ends, as a row lock is."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import Lock, LockError, LockLost, LockNotAvailable, Semaphore, kept, redis_lock
from tests.contract.world import PATIENCE, Observer, keys_of
from tests.django.transactions import elsewhere, increment, next_holder, values, watched
from tests.elsewhere import held, is_free
from tests.ledger.models import Counter


@pytest.fixture(autouse=True)
def _nothing_stays_installed(request: pytest.FixtureRequest) -> Iterator[None]:
    (alias,) = {"database", "postgres"} & set(request.fixturenames) or {None}
    database = alias and request.getfixturevalue(alias)
    yield
    assert not database or [] == watched(database)


def lock(name: str, database: str, **options: Any) -> Lock:
    return Lock(name, database=database, wait=0, **options)


class Failed(Exception):
    pass


# When it is released


def test_commit_comes_before_the_release(database: str, name: str, server_side: Observer) -> None:
    with atomic(using=database):
        with lock(name, database) as hold:
            increment(database, name)
            seen = next_holder(server_side, database, name)
        assert hold.token == server_side.holder(name)
    assert [1] == seen.result(PATIENCE)


def test_an_error_rolls_back_before_the_release(
    database: str, name: str, server_side: Observer
) -> None:
    with pytest.raises(Failed), atomic(using=database):
        with lock(name, database):
            increment(database, name)
            seen = next_holder(server_side, database, name)
        raise Failed
    assert [] == seen.result(PATIENCE)


def test_set_rollback_rolls_back_before_the_release(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        with lock(name, database):
            increment(database, name)
            seen = next_holder(server_side, database, name)
        transaction.set_rollback(True, using=database)
    assert [] == seen.result(PATIENCE)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_releases_as_well(
    database: str, name: str, interrupt: type[BaseException]
) -> None:
    with pytest.raises(interrupt), atomic(using=database):
        with lock(name, database):
            pass
        raise interrupt
    assert is_free(name)


def test_a_savepoint_rolled_back_releases_only_what_was_taken_inside_it(
    database: str, name: str, server_side: Observer
) -> None:
    inner = f"{name}:inner"
    with atomic(using=database):
        with lock(name, database) as outer:
            increment(database, name)
        with suppress(Failed), atomic(using=database):
            with lock(inner, database), atomic(using=database), lock(f"{name}:innermost", database):
                pass
            assert not is_free(inner)
            assert not is_free(f"{name}:innermost")
            raise Failed
        assert is_free(inner)
        assert is_free(f"{name}:innermost")
        assert outer.token == server_side.holder(name)
        assert watched(database)
    assert is_free(name)
    assert [1] == values(database, name)


def test_a_savepoint_released_keeps_its_holds_for_the_transaction(database: str, name: str) -> None:
    with atomic(using=database):
        with atomic(using=database), lock(name, database):
            pass
        assert not is_free(name)
    assert is_free(name)


def test_a_block_without_savepoint_that_fails_dooms_the_transaction_and_its_holds(
    database: str, name: str
) -> None:
    with atomic(using=database):
        with suppress(Failed), atomic(using=database, savepoint=False):
            with lock(name, database):
                pass
            raise Failed
        assert not is_free(name)
    assert is_free(name)


@pytest.mark.postgres
def test_a_commit_that_the_database_refuses_releases(postgres: str, name: str) -> None:
    with connections[postgres].cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
        )
    with pytest.raises(Exception, match="duplicate key"), atomic(using=postgres):
        with lock(name, postgres), connections[postgres].cursor() as cursor:
            cursor.execute("INSERT INTO once VALUES (1), (1)")
        assert not is_free(name)
    assert is_free(name)


def commit(database: str) -> None:
    pass


def fail(database: str) -> None:
    raise Failed


def set_rollback(database: str) -> None:
    transaction.set_rollback(True, using=database)


def close(database: str) -> None:
    connections[database].close()


@pytest.mark.parametrize("block", ["transaction", "savepoint"])
@pytest.mark.parametrize(
    ("end", "action"),
    [(commit, "commit"), (fail, "rollback"), (set_rollback, "rollback"), (close, "close")],
)
def test_the_release_comes_strictly_after_the_database_s_action(
    database: str,
    name: str,
    block: str,
    end: Callable[[str], None],
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []
    kind = type(connections[database])

    def note(method: str) -> None:
        original = getattr(kind, method)

        def noted(*args: Any) -> Any:
            result = original(*args)
            happened.append(method)
            return result

        monkeypatch.setattr(kind, method, noted)

    for method in ("_commit", "_rollback", "_savepoint_rollback", "_close"):
        note(method)
    release = kept._release

    def noted_release(hold: Any) -> None:
        happened.append("release")
        release(hold)

    monkeypatch.setattr(kept, "_release", noted_release)
    with suppress(Failed), atomic(using=database):
        happened.clear()
        if block == "transaction":
            with lock(name, database):
                end(database)
        else:
            with suppress(Failed), atomic(using=database), lock(name, database):
                end(database)
    relevant = (
        f"_savepoint_{action}" if (block, action) == ("savepoint", "rollback") else f"_{action}"
    )
    assert ["release"] == [step for step in happened if step == "release"]
    assert relevant in happened[: happened.index("release")]
    assert is_free(name)
    monkeypatch.undo()
    connections[database].close()


@pytest.mark.postgres
def test_a_connection_that_the_database_cut_releases(postgres: str, name: str) -> None:
    def cut() -> None:
        with connections[postgres].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    with pytest.raises((OperationalError, InterfaceError)), atomic(using=postgres):
        pid = connections[postgres].connection.info.backend_pid
        with lock(name, postgres):
            increment(postgres, name)
            elsewhere(cut).result(PATIENCE)
        assert not is_free(name)
    assert is_free(name)
    assert [] == values(postgres, name)


def test_a_lock_is_free_again_when_other_things_to_do_after_commit_run(
    database: str, name: str
) -> None:
    found: list[bool] = []
    with atomic(using=database):
        transaction.on_commit(lambda: found.append(is_free(name)), using=database)
        with lock(name, database):
            pass
    assert [True] == found


def test_a_failing_thing_to_do_after_commit_does_not_keep_the_lock(
    database: str, name: str
) -> None:
    with pytest.raises(Failed), atomic(using=database):
        transaction.on_commit(lambda: fail(database), using=database)
        with lock(name, database):
            pass
    assert is_free(name)


def test_a_hold_that_django_drops_unnoticed_is_released(database: str, name: str) -> None:
    with atomic(using=database):
        with lock(name, database):
            pass
        connections[database].run_on_commit = []
        assert is_free(name)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_without_autocommit_a_hold_is_kept_until_the_transaction_is_ended_by_hand(
    database: str, name: str, end: str
) -> None:
    transaction.set_autocommit(False, using=database)
    try:
        with lock(name, database):
            pass
        with atomic(using=database), lock(f"{name}:atomic", database):
            pass
        assert not is_free(name)
        assert not is_free(f"{name}:atomic")
        getattr(transaction, end)(using=database)
        assert is_free(name)
        assert is_free(f"{name}:atomic")
    finally:
        transaction.rollback(using=database)
        transaction.set_autocommit(True, using=database)


def test_without_autocommit_the_first_lock_may_come_before_the_first_query(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections[database].close()
    monkeypatch.setitem(connections[database].settings_dict, "AUTOCOMMIT", False)
    with lock(name, database):
        pass
    values(database, name)
    assert not is_free(name)
    transaction.commit(using=database)
    assert is_free(name)
    connections[database].close()


# What is kept


def test_in_one_transaction_a_lock_is_taken_once(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        with lock(name, database) as first:
            pass
        with atomic(using=database), lock(name, database) as second:
            assert first is second
        assert first is lock(name, database).acquire()
        assert first.token == server_side.holder(name)
    assert is_free(name)
    with atomic(using=database), lock(name, database) as third:
        assert third.fencing_token > first.fencing_token


def test_a_hold_released_by_hand_is_kept_too(database: str, name: str) -> None:
    with atomic(using=database):
        hold = lock(name, database).acquire()
        assert hold is not None
        hold.release()
        asyncio.run(hold.arelease())
        hold.check()
        hold.extend(60)
        assert hold.remaining > 50
        assert not is_free(name)
    assert is_free(name)
    hold.release()


def test_a_block_that_ends_after_its_transaction_is_left_quietly(database: str, name: str) -> None:
    open_transaction = atomic(using=database)
    open_transaction.__enter__()
    with lock(name, database):
        open_transaction.__exit__(None, None, None)
        assert is_free(name)


def test_a_decorated_function_keeps_its_lock_for_the_caller_s_transaction(
    database: str, name: str
) -> None:
    @redis_lock("{name}", database=database)
    def write(name: str) -> None:
        increment(database, name)

    with atomic(using=database):
        write(name)
        assert not is_free(name)
    assert is_free(name)
    with pytest.raises(Exception, match=r"UNIQUE|unique"):
        write(name)
    assert is_free(name)


def test_a_lock_around_the_transaction_ends_with_its_block(database: str, name: str) -> None:
    with lock(name, database) as hold:
        with atomic(using=database):
            assert not hold.kept
        assert not is_free(name)
    assert is_free(name)


def test_scope_block_ends_with_the_block_even_in_a_transaction(database: str, name: str) -> None:
    with atomic(using=database):
        with lock(name, database, scope="block") as hold:
            assert not hold.kept
        assert is_free(name)
        assert [] == watched(database)


def test_scope_transaction_needs_a_transaction(database: str, name: str) -> None:
    with pytest.raises(TransactionManagementError, match="inside atomic"):
        lock(name, database, scope="transaction").acquire()
    assert is_free(name)
    with atomic(using=database):
        with lock(name, database, scope="transaction"):
            pass
        assert not is_free(name)
    assert is_free(name)


def test_contention_in_a_transaction_is_an_error_as_ever(database: str, name: str) -> None:
    with held(Lock(name)), pytest.raises(LockNotAvailable), atomic(using=database):
        lock(name, database).__enter__()
    assert is_free(name)


@pytest.mark.postgres
def test_only_transactions_on_the_lock_s_database_count(
    postgres: str, transactional_db: None, name: str
) -> None:
    with atomic(using=postgres):
        with Lock(name, wait=0):
            pass
        assert is_free(name)
        with Lock(name, wait=0, database=postgres):
            pass
        assert not is_free(name)
    assert is_free(name)


# What goes wrong


def test_a_hold_lost_meanwhile_is_reported_on_leaving_its_block(
    database: str, name: str, client: redis.Redis
) -> None:
    with pytest.raises(LockLost), atomic(using=database), lock(name, database) as hold:
        increment(database, name)
        client.delete(keys_of(name).holder)
        with pytest.raises(LockLost):
            hold.extend(10)
    assert [] == values(database, name)


def test_a_lost_hold_is_not_taken_again_in_its_transaction(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        with lock(name, database, commit_guard=False) as hold:
            pass
        client.delete(keys_of(name).holder)
        with pytest.raises(LockLost):
            hold.extend(10)
        with pytest.raises(LockLost):
            lock(name, database).acquire()


def test_a_failed_release_after_commit_is_logged_and_not_raised(
    database: str, name: str, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "redis_locks"), atomic(using=database):
        increment(database, name)
        with lock(name, database, commit_guard=False):
            client.delete(keys_of(name).holder)
    assert [1] == values(database, name)
    assert "was lost" in caplog.text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_its_parent_s_transaction_alone(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        with lock(name, database) as hold:
            pass
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                connections[database].run_on_commit.clear()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert hold.token == server_side.holder(name)
    assert is_free(name)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"scope": "session"}, ValueError, "'auto', 'block' or 'transaction', not 'session'"),
        ({"scope": None}, TypeError, "scope must be a string, not None"),
        ({"database": ""}, ValueError, "an alias of DATABASES"),
        ({"database": 1}, TypeError, "database must be a string, not 1"),
        ({"commit_guard": 1}, TypeError, "commit_guard must be True or False, not 1"),
    ],
)
@pytest.mark.parametrize("kind", [Lock, redis_lock])
def test_wrong_arguments_are_named_at_once(
    kind: Any, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        kind("name", **options)


# Async code


def test_a_sync_function_that_async_code_calls_keeps_its_hold(database: str, name: str) -> None:
    def work() -> None:
        with atomic(using=database):
            with lock(name, database):
                increment(database, name)
            assert not is_free(name)

    def check() -> list[int]:
        connections[database].close()
        return values(database, name)

    async def main() -> list[int]:
        await sync_to_async(work)()
        assert await sync_to_async(is_free)(name)
        return await sync_to_async(check)()

    assert [1] == asyncio.run(main())


def test_an_async_hold_ends_with_its_block(database: str, name: str) -> None:
    async def main() -> None:
        async with lock(name, database) as hold:
            assert not hold.kept
        assert await asyncio.to_thread(is_free, name)

    with atomic(using=database):
        asyncio.run(main())


def test_async_code_cannot_ask_for_a_transaction_s_scope(database: str, name: str) -> None:
    async def main() -> None:
        async with lock(name, database, scope="transaction"):
            pass

    with pytest.raises(TransactionManagementError, match="not for async code"):
        asyncio.run(main())
    with pytest.raises(TransactionManagementError, match="not for async code"):

        @redis_lock(name, scope="transaction")
        async def decorated() -> None:
            pass

    assert 0 == Counter.objects.using(database).count()


# Modes, sets and permits


def test_what_a_kept_hold_covers_is_not_taken_again(database: str, name: str) -> None:
    one, two = f"{name}:1", f"{name}:2"
    with atomic(using=database):
        both = Lock(one, two, database=database, wait=0).acquire()
        assert both is lock(one, database).acquire()
        assert both is lock(two, database, mode="shared").acquire()
        assert both is Semaphore(one, 3, database=database).acquire()
        assert both is Lock(two, one, database=database).acquire()


def test_what_would_wait_for_its_own_transaction_is_refused_at_once(
    database: str, name: str
) -> None:
    one, two = f"{name}:1", f"{name}:2"
    with atomic(using=database):
        lock(one, database, mode="shared").acquire()
        with pytest.raises(LockError, match="would wait for its own thread"):
            Lock(two, one, database=database, wait=60).acquire()
        assert is_free(two)
        assert lock(two, database).acquire()


def test_in_one_transaction_one_permit_is_taken(database: str, name: str) -> None:
    permits = Semaphore(name, 1, wait=0, database=database)
    with atomic(using=database):
        with permits as first:
            pass
        assert first is permits.acquire()
        assert not is_free(name)
    assert is_free(name)


def test_an_upgraded_hold_covers_what_it_did_not_before(database: str, name: str) -> None:
    with atomic(using=database):
        hold = lock(name, database, mode="shared").acquire()
        assert hold is not None
        hold.upgrade(wait=0)
        assert hold is lock(name, database).acquire()
    assert is_free(name)


def test_a_kept_hold_is_not_released_by_a_commit_in_redis(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        with lock(name, database) as hold, pytest.raises(LockError, match="scope='block'"):
            hold.commit(client.pipeline().set(name, 1))
        assert not is_free(name)
    assert not client.exists(name)


def test_a_lock_taken_again_reads_what_is_there_now(
    database: str, name: str, client: redis.Redis
) -> None:
    again = lock(name, database, read=[("GET", f"{name}:data")])
    with atomic(using=database):
        lock(name, database).acquire()
        client.set(f"{name}:data", "now", ex=60)
        with again as hold:
            assert [b"now"] == hold.read
        assert not is_free(name)
    assert is_free(name)


def test_shared_and_then_exclusive_in_one_transaction_is_an_upgrade(
    database: str, name: str
) -> None:
    with atomic(using=database):
        with lock(name, database, mode="shared") as first:
            pass
        with lock(name, database) as hold:
            assert ("exclusive", "exclusive") == (first.mode, hold.mode)
        assert not is_free(name, mode="shared")
    assert is_free(name)
