"""The commit guard of holds around a transaction: no COMMIT of what was done under a lock that is lost."""

# ruff: noqa: PT012, SIM117 - what is around what is what these tests are about

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.transaction import atomic

from redis_locks import Lock, LockLost, Semaphore, run_once
from redis_locks.rows import lock_rows
from tests.django.transactions import increment, values
from tests.ledger.models import Counter
from tests.support import stored
from tests.support.connections import count_calls_together
from tests.support.world import keys_of

pytestmark = pytest.mark.usefixtures("transactional_db", "nothing_stays_kept")


def lose(client: redis.Redis, name: str) -> None:
    stored.drop_holder(client, keys_of(name).lock)


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


def test_a_lock_known_to_be_lost_is_not_asked_about(
    database: str, name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LockLost), Lock(name) as hold:
        lose(client, name)
        with suppress(LockLost):
            hold.extend(10)
        trips = count_calls_together(monkeypatch)
        for _ in range(2):
            with pytest.raises(LockLost), atomic(using=database):
                increment(database, name)
    assert [] == trips
    assert [] == values(database, name)


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
            with Lock(f"{name}:5"):
                pass
            trips = count_calls_together(monkeypatch)
        assert [4] == trips


def test_without_a_hold_a_transaction_asks_nobody(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lock(name):
        pass
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
        async with Lock(name):
            await sync_to_async(work)()

    with pytest.raises(LockLost, match="before COMMIT"):
        asyncio.run(main())
    assert [] == values("default", name)
