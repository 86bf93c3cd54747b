"""The commit guard: no COMMIT of work under a lock that is lost by then, inside or around."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.db.transaction import atomic
from django.test import override_settings

from redis_locks import Lock, LockLost, Semaphore, inspection, run_once
from redis_locks.rows import lock_rows
from tests.django.transactions import increment, take, values
from tests.elsewhere import in_thread, is_free
from tests.ledger.models import Counter
from tests.support import stored, transactions
from tests.support.connections import count_calls_together
from tests.support.world import Observer, granted, keys_of

pytestmark = pytest.mark.usefixtures("transactional_db", "nothing_stays_kept")


def lose(client: redis.Redis, name: str) -> None:
    stored.drop_holder(client, keys_of(name).lock)


def test_a_transaction_whose_lock_is_lost_is_rolled_back(
    database: str, name: str, client: redis.Redis, server_side: Observer
) -> None:
    with pytest.raises(LockLost, match="before COMMIT"), atomic(using=database):
        with Lock(name, database=database):
            increment(database, name)
        lose(client, name)
        successor = granted(in_thread(Lock(name, wait=0).acquire))
    assert [] == values(database, name)
    assert successor.token == server_side.holder(name)
    successor.release()


def test_the_guard_looks_only_at_the_outermost_commit(
    database: str, name: str, client: redis.Redis
) -> None:
    reached = False
    with pytest.raises(LockLost), atomic(using=database):
        with atomic(using=database), Lock(name, database=database):
            increment(database, name)
            lose(client, name)
        reached = True
    assert reached
    assert [] == values(database, name)


def test_a_lock_lost_in_a_savepoint_that_is_rolled_back_does_not_matter(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        increment(database, name)
        with suppress(ZeroDivisionError), atomic(using=database):
            with Lock(name, database=database):
                lose(client, name)
            raise ZeroDivisionError
    assert [1] == values(database, name)


def test_without_autocommit_a_commit_by_hand_is_guarded_too(
    database: str, name: str, client: redis.Redis
) -> None:
    transaction.set_autocommit(False, using=database)
    try:
        with Lock(name, database=database):
            increment(database, name)
        lose(client, name)
        with pytest.raises(LockLost):
            transaction.commit(using=database)
        assert [] == values(database, name)
    finally:
        transaction.rollback(using=database)
        transaction.set_autocommit(True, using=database)


def test_a_commit_refused_inside_atomic_rolls_nothing_back(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        with Lock(name, database=database):
            increment(database, name)
        with pytest.raises(transaction.TransactionManagementError):
            transaction.commit(using=database)
        assert not is_free(name)
    assert [1] == values(database, name)


def test_a_lock_can_opt_out(database: str, name: str, client: redis.Redis) -> None:
    with atomic(using=database):
        with Lock(name, database=database, commit_guard=False):
            increment(database, name)
        lose(client, name)
    assert [1] == values(database, name)


@pytest.mark.parametrize("guards", [(False, True), (True, False)])
def test_a_lock_that_is_taken_again_is_verified_if_one_of_the_two_wants_it(
    database: str, name: str, client: redis.Redis, guards: tuple[bool, bool]
) -> None:
    with pytest.raises(LockLost), atomic(using=database):
        for guard in guards:
            take(Lock(name, database=database, commit_guard=guard))
        increment(database, name)
        lose(client, name)
    assert [] == values(database, name)


def test_a_lease_that_ends_within_the_margin_counts_as_lost(
    database: str, name: str, client: redis.Redis
) -> None:
    with pytest.raises(LockLost, match="too soon for COMMIT"), atomic(using=database):
        with Lock(name, database=database, lease=60, renew=False):
            increment(database, name)
        stored.set_lease_left(client, keys_of(name).lock, 900)
    assert [] == values(database, name)


def test_the_guard_extends_only_a_lease_that_is_renewed(
    database: str, name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []

    def note() -> None:
        left.append(stored.lease_left_ms(client, keys_of(name).lock))

    transactions.at_commit(monkeypatch, after=note)
    for renew, before in ((False, 20_000), (True, 500)):
        with atomic(using=database), Lock(name, database=database, lease=30, renew=renew):
            stored.set_lease_left(client, keys_of(name).lock, before)
    assert 0 < left[0] <= 20_000 < left[1]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_guard_rolls_back(
    database: str, name: str, interrupt: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise interrupt

    transactions.at_commit(monkeypatch, before=interrupted)
    with pytest.raises(interrupt), atomic(using=database), Lock(name, database=database):
        increment(database, name)
    assert [] == values(database, name)
    assert is_free(name)


def test_all_partitions_of_a_set_are_kept_and_verified(
    database: str, name: str, client: redis.Redis
) -> None:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "PARTITIONS": 4}):
        spread = [f"{name}:{number}" for number in range(8)]
        with atomic(using=database):
            with Lock(*spread, database=database) as hold:
                increment(database, name)
            assert len(hold.parts) > 1
            assert sorted(spread) == inspection.names()
        assert [] == inspection.names()
        # It may hear of that before it asks.
        lost = pytest.raises(LockLost, match=r"before COMMIT|an operator force-released it")
        with lost, atomic(using=database):
            with Lock(*spread, database=database):
                increment(database, f"{name}:lost")
            inspection.force_release(spread[3])
        assert [] == inspection.names()
    assert [1] == values(database, name)
    assert [] == values(database, f"{name}:lost")


# The commit guard of holds around a transaction: no COMMIT of what was done under a lock that is
# lost


# ruff: noqa: SIM117 - what is around what is what these tests are about


@pytest.mark.parametrize(
    "block",
    [Lock, lambda name: Lock(name).hold()],
)
@pytest.mark.parametrize("durable", [False, True])
def test_a_transaction_under_a_lost_lock_is_rolled_back(
    database: str,
    name: str,
    client: redis.Redis,
    block: Callable[[str], AbstractContextManager[Any]],
    durable: bool,
) -> None:
    with pytest.raises(LockLost, match="before COMMIT"), block(name):
        with atomic(using=database):
            increment(database, f"{name}:before")
        with atomic(using=database, durable=durable):
            with atomic(using=database):
                increment(database, name)
            lose(client, name)
    assert [1] == values(database, f"{name}:before")
    assert [] == values(database, name)
    assert connections[database].autocommit


@pytest.mark.parametrize("options", [{"commit_guard": False}, {"scope": "block"}])
def test_a_lock_around_can_opt_out(
    database: str, name: str, client: redis.Redis, options: dict[str, Any]
) -> None:
    with suppress(LockLost), Lock(name, **options), atomic(using=database):
        increment(database, name)
        lose(client, name)
    assert [1] == values(database, name)


def test_a_nested_block_that_wants_the_guard_gets_it(
    database: str, name: str, client: redis.Redis
) -> None:
    with pytest.raises(LockLost), Lock(name, commit_guard=False), Lock(name):
        with atomic(using=database):
            increment(database, name)
            lose(client, name)
    assert [] == values(database, name)


@pytest.mark.postgres
def test_a_lock_of_another_database_is_not_verified(
    postgres: str, name: str, client: redis.Redis
) -> None:
    with suppress(LockLost), Lock(name, database="default"), atomic(using=postgres):
        increment(postgres, name)
        lose(client, name)
    assert [1] == values(postgres, name)


def test_all_holds_around_and_inside_are_verified_in_one_round_trip(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lock(f"{name}:1"), Semaphore(f"{name}:2", 3), Lock(f"{name}:3", f"{name}:4"):
        with atomic(using=database):
            take(Lock(f"{name}:5"))
            trips = count_calls_together(monkeypatch)
        assert [4] == trips


def test_without_a_hold_a_transaction_asks_nobody(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(Lock(name))
    trips = count_calls_together(monkeypatch)
    with atomic(using=database):
        increment(database, name)
    assert [] == trips


def test_row_locks_around_are_verified(database: str, name: str, client: redis.Redis) -> None:
    row = Counter.objects.using(database).create(name=name, value=1)
    with pytest.raises(LockLost), lock_rows(row) as rows, atomic(using=database):
        increment(database, f"{name}:other")
        for held in rows.hold.lease.names:  # type: ignore[union-attr]
            lose(client, held)
    assert [] == values(database, f"{name}:other")


def test_a_job_s_hold_is_verified(database: str, name: str) -> None:
    with pytest.raises(LockLost), run_once(name) as attempt:
        attempt.lease.lose("a test says so")
        with atomic(using=database):
            increment(database, name)
    assert [] == values(database, name)


def test_an_async_lock_is_verified_for_what_its_task_commits(
    name: str, client: redis.Redis
) -> None:
    def work() -> None:
        try:
            with atomic():
                increment("default", name)
                lose(client, name)
        finally:
            connections.close_all()

    async def main() -> None:
        # No renewal finds the loss before COMMIT does.
        async with Lock(name, lease=60):
            await sync_to_async(work)()

    with pytest.raises(LockLost, match="before COMMIT"):
        asyncio.run(main())
    assert [] == values("default", name)
