"""The thousandth lock that a thread, a task or a transaction holds costs what the tenth does."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from statistics import median
from time import perf_counter

import pytest
from django.db.transaction import atomic
from django.test import override_settings

from redis_locks import Hold, Lock

pytestmark = pytest.mark.ci

MANY = 1500
FEW = 100
ROOM = 3
"""How many times as long the last locks may take: the machine may be busy just then."""


def judge(times: list[float]) -> None:
    first, last = median(times[10 : 10 + FEW]), median(times[-FEW:])
    assert last < ROOM * first + 0.001


@pytest.mark.parametrize("in_transaction", [False, True])
@override_settings(DEBUG=True)  # what notes most
def test_a_thread_s_further_locks_cost_the_same(
    transactional_db: None, name: str, in_transaction: bool
) -> None:
    times = []
    with ExitStack() as stack:
        if in_transaction:
            stack.enter_context(atomic())
        for number in range(MANY):
            began = perf_counter()
            stack.enter_context(Lock(f"{name}:{number}", lease=120))
            times.append(perf_counter() - began)
    judge(times)


def test_a_task_s_further_locks_cost_the_same(name: str) -> None:
    async def main() -> list[float]:
        times, holds = [], []
        for number in range(MANY):
            began = perf_counter()
            hold = await Lock(f"{name}:{number}", lease=120).aacquire()
            times.append(perf_counter() - began)
            assert isinstance(hold, Hold)
            holds.append(hold)
        for hold in holds:
            await hold.arelease()
        return times

    judge(asyncio.run(main()))
