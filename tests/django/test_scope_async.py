"""Scopes and async code: its own holds end with their blocks, and sync code that it calls keeps its holds."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import redis_lock
from tests.django.transactions import increment, lock, values
from tests.elsewhere import is_free
from tests.ledger.models import Counter

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


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
