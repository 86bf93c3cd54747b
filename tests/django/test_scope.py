"""What a transaction keeps of the holds taken inside it, and for whom, by `scope` and `database`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.db import connections
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import Lock, LockError, LockNotAvailable, redis_lock
from tests.django.transactions import increment, lock
from tests.elsewhere import held, is_free
from tests.support.transactions import keeps_anything
from tests.support.world import Observer

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


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


def test_the_transaction_may_be_of_a_connection_that_another_thread_has_opened(
    database: str, name: str
) -> None:
    def opened() -> Any:
        theirs = connections[database]
        theirs.ensure_connection()
        theirs.inc_thread_sharing()
        return theirs

    with lock(name, database):
        pass  # this thread knows another connection by now
    with ThreadPoolExecutor(1) as pool:
        ours, theirs = connections[database], pool.submit(opened).result()
    connections[database] = theirs
    try:
        with atomic(using=database):
            with lock(name, database):
                pass
            assert not is_free(name)
        assert is_free(name)
    finally:
        connections[database] = ours
        theirs.close()
        theirs.dec_thread_sharing()


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
        assert not keeps_anything(database)


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
@pytest.mark.parametrize("outer", ["default", "postgres"])
def test_the_transactions_of_all_databases_keep_a_hold(
    postgres: str, transactional_db: None, name: str, outer: str
) -> None:
    inner = {"default": postgres, postgres: "default"}[outer]
    with atomic(using=inner):
        with Lock(name, wait=0):
            pass
        assert not is_free(name)
    assert is_free(name)
    with atomic(using=outer):
        with atomic(using=inner), Lock(name, wait=0):
            pass
        assert not is_free(name)
    assert is_free(name)


@pytest.mark.postgres
def test_of_several_transactions_the_last_to_end_releases(
    postgres: str, transactional_db: None, name: str
) -> None:
    first, second = atomic(), atomic(using=postgres)
    first.__enter__()
    with second:
        with Lock(name, wait=0):
            pass
        first.__exit__(None, None, None)
        assert not is_free(name)
        with atomic(), Lock(name, wait=0):
            pass
        assert not is_free(name)
    assert is_free(name)


@pytest.mark.postgres
def test_database_narrows_whose_transactions_count(
    postgres: str, transactional_db: None, name: str
) -> None:
    with atomic(using=postgres):
        with Lock(name, wait=0, database="default"):
            pass
        assert is_free(name)
        with atomic(), Lock(name, wait=0, database=postgres):
            pass
        assert not is_free(name)
        with pytest.raises(TransactionManagementError, match="database 'default'"):
            Lock(name, scope="transaction", database="default").acquire()
    assert is_free(name)


def test_a_transaction_begun_by_hand_is_an_error_at_once(database: str, name: str) -> None:
    """Django cannot tell when it ends, and a release before COMMIT would let others in too early."""
    by_hand = connections[database]
    with by_hand.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            for options in ({}, {"scope": "transaction"}, {"database": database}):
                with pytest.raises(TransactionManagementError, match=f"atomic.using='{database}'"):
                    Lock(name, wait=0, **options).acquire()
                assert is_free(name)
            with Lock(name, wait=0, scope="block"):
                assert not is_free(name)
            assert is_free(name)
        finally:
            cursor.execute("ROLLBACK")
    with atomic(using=database):
        with Lock(name, wait=0):
            pass
        assert not is_free(name)
    with Lock(name, wait=0):
        pass
    assert is_free(name)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"scope": "session"}, ValueError, "'auto', 'block' or 'transaction', not 'session'"),
        ({"scope": None}, TypeError, "scope must be a string, not None"),
        ({"database": ""}, ValueError, "an alias of DATABASES"),
        ({"database": 1}, TypeError, "database must be a string or None, not 1"),
        ({"commit_guard": 1}, TypeError, "commit_guard must be True or False, not 1"),
    ],
)
@pytest.mark.parametrize("kind", [Lock, redis_lock])
def test_wrong_arguments_are_named_at_once(
    kind: Any, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        kind("name", **options)


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


@pytest.mark.parametrize("engine", ["no.such.engine", "django.db.backends.oracle"])
def test_a_database_without_a_driver_keeps_nobody_from_a_lock(
    name: str, database: str, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    alias = f"without {engine}"
    configured = {**connections.settings["default"], "ENGINE": engine}
    monkeypatch.setitem(connections.settings, alias, configured)
    with atomic(using=database):
        with Lock(name, wait=0):
            pass
        assert not is_free(name)
    assert is_free(name)
    with Lock(name, database=alias, wait=0):
        pass
    assert is_free(name)
    with pytest.raises(TransactionManagementError, match="needs a transaction on database"):
        Lock(name, database=alias, scope="transaction").acquire()
