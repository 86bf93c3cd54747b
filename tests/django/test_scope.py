"""What a transaction keeps of the holds taken inside it, by `scope` and `database`.

Also what a kept hold covers.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import Lock, LockError, Semaphore, redis_lock
from tests.django.transactions import increment, keeping, lock, take, values
from tests.elsewhere import is_free
from tests.ledger.models import Counter
from tests.support.transactions import keeps_anything
from tests.support.world import Observer, granted

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


def test_in_one_transaction_a_lock_is_taken_once(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        first = take(lock(name, database))
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
        with keeping(name, database), lock(name, database):
            pass
    finally:
        connections[database] = ours
        theirs.close()
        theirs.dec_thread_sharing()


def test_a_hold_released_by_hand_is_kept_too(database: str, name: str) -> None:
    with keeping(name, database):
        hold = granted(lock(name, database).acquire())
        hold.release()
        asyncio.run(hold.arelease())
        hold.check()
        hold.extend(60)
        assert hold.remaining > 50
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

    with keeping(name, database):
        write(name)
    with pytest.raises(Exception, match=r"UNIQUE|unique"):
        write(name)
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
    with keeping(name, database), lock(name, database, scope="transaction"):
        pass


@pytest.mark.postgres
@pytest.mark.parametrize("outer", ["default", "postgres"])
def test_the_transactions_of_all_databases_keep_a_hold(
    postgres: str, transactional_db: None, name: str, outer: str
) -> None:
    inner = {"default": postgres, postgres: "default"}[outer]
    with keeping(name, inner), Lock(name, wait=0):
        pass
    with keeping(name, outer), atomic(using=inner), Lock(name, wait=0):
        pass


@pytest.mark.postgres
def test_of_several_transactions_the_last_to_end_releases(
    postgres: str, transactional_db: None, name: str
) -> None:
    first, second = atomic(), atomic(using=postgres)
    first.__enter__()
    with second:
        take(Lock(name, wait=0))
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
        take(Lock(name, wait=0, database="default"))
        assert is_free(name)
        with atomic(), Lock(name, wait=0, database=postgres):
            pass
        assert not is_free(name)
        with pytest.raises(TransactionManagementError, match="database 'default'"):
            Lock(name, scope="transaction", database="default").acquire()
    assert is_free(name)


def test_a_transaction_begun_by_hand_is_an_error_at_once(database: str, name: str) -> None:
    """Django cannot see its end, and a release before COMMIT would let others in too early."""
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
        take(Lock(name, wait=0))
        assert not is_free(name)
    take(Lock(name, wait=0))
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
    with keeping(name, database):
        lock(name, database).acquire()
        client.set(f"{name}:data", "now", ex=60)
        with again as hold:
            assert [b"now"] == hold.read


@pytest.mark.parametrize("engine", ["no.such.engine", "django.db.backends.oracle"])
def test_a_database_without_a_driver_keeps_nobody_from_a_lock(
    name: str, database: str, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    alias = f"without {engine}"
    configured = {**connections.settings["default"], "ENGINE": engine}
    monkeypatch.setitem(connections.settings, alias, configured)
    with keeping(name, database), Lock(name, wait=0):
        pass
    take(Lock(name, database=alias, wait=0))
    assert is_free(name)
    with pytest.raises(TransactionManagementError, match="needs a transaction on database"):
        Lock(name, database=alias, scope="transaction").acquire()


# What a kept hold covers: shared and exclusive modes, sets of locks, permits


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


def test_an_upgraded_hold_covers_what_it_did_not_before(database: str, name: str) -> None:
    with atomic(using=database):
        hold = granted(lock(name, database, mode="shared").acquire())
        hold.upgrade(wait=0)
        assert hold is lock(name, database).acquire()
    assert is_free(name)


def test_shared_and_then_exclusive_in_one_transaction_is_an_upgrade(
    database: str, name: str
) -> None:
    with atomic(using=database):
        first = take(lock(name, database, mode="shared"))
        with lock(name, database) as hold:
            assert ("exclusive", "exclusive") == (first.mode, hold.mode)
        assert not is_free(name, mode="shared")
    assert is_free(name)


# Scopes and async code: its own holds end with their blocks, and sync code that it calls keeps its
# holds


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
