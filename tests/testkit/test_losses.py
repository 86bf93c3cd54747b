"""`lose_lock`: a lock that is lost in the middle of a block, on a server and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import transaction

from redis_locks import Lock, LockLost, redis_lock
from redis_locks.testing import assert_released, lose_lock, override_locks
from tests.ledger.models import Entry
from tests.signals.conftest import Connect, connect
from tests.support.world import until

__all__ = ["connect"]


@pytest.fixture(params=["a server", "none"], autouse=True)
def where(request: pytest.FixtureRequest) -> Iterator[None]:
    with ExitStack() as stack:
        if request.param == "none":
            stack.enter_context(override_locks("granted"))
        yield


def test_a_block_learns_of_it_at_once_and_ends_with_lock_lost(name: str) -> None:
    lost = []

    def work() -> None:
        with Lock(name) as hold:
            lost.append(hold.is_lost)
            lose_lock(name)
            lost.append(hold.is_lost)
            with pytest.raises(LockLost):
                hold.check()

    with pytest.raises(LockLost, match="an operator force-released it"):
        work()
    assert [False, True] == lost
    assert_released(name)


def test_an_async_block_is_cancelled_at_its_next_await(name: str) -> None:
    reached = []

    async def work() -> None:
        async with Lock(name):
            lose_lock(name)
            reached.append("the loss")
            await asyncio.Event().wait()
            reached.append("the rest")

    with pytest.raises(LockLost):
        asyncio.run(asyncio.wait_for(work(), 10))
    assert ["the loss"] == reached


def test_a_call_that_a_decorated_function_makes_can_lose_its_lock(name: str) -> None:
    charge = Mock(side_effect=lambda: lose_lock(name))

    @redis_lock(name)
    def pay() -> str:
        charge()
        return "paid"

    with pytest.raises(LockLost):
        pay()
    charge.assert_called_once_with()


@pytest.mark.django_db(transaction=True)
def test_a_transaction_is_rolled_back(name: str) -> None:
    @transaction.atomic
    def write() -> None:
        Lock(name).acquire()
        Entry.objects.create(book=name, number=1)
        lose_lock(name)

    with pytest.raises(LockLost):
        write()
    assert not Entry.objects.filter(book=name).exists()


def test_its_signal_is_sent_once(name: str, connect: Connect) -> None:
    lost: list[Any] = []
    connect("lost", lambda event, **_: lost.append(event))
    with pytest.raises(LockLost), Lock(name):
        lose_lock(name)
    until(lambda: lost)  # the thread that heard of the loss may send it
    assert [(name,)] == [event.names for event in lost]


def test_a_lock_that_nobody_holds_cannot_be_lost(name: str) -> None:
    with pytest.raises(AssertionError, match="nobody holds it"):
        lose_lock(name)
