"""SKIP LOCKED as a job queue: every job is done exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter as Tally
from typing import Any

import pytest
from django.db import connections
from django.db.models import F, QuerySet
from django.db.transaction import atomic

from redis_locks import inspection
from redis_locks.rows import lock_rows
from tests.contract.world import PATIENCE
from tests.ledger.models import Counter

JOBS = 48
WORKERS = 8


def jobs(database: str, name: str) -> QuerySet[Counter]:
    rows = Counter.objects.using(database)
    return rows.filter(name__startswith=name, value=0).order_by("pk")


@pytest.fixture
def pending(database: str, name: str) -> QuerySet[Counter]:
    Counter.objects.using(database).bulk_create(
        Counter(name=f"{name}:{number}") for number in range(JOBS)
    )
    return jobs(database, name)


def all_done(pending: QuerySet[Counter], name: str, done: list[str]) -> None:
    assert JOBS == len(done) == len(set(done))
    rows = Counter.objects.using(pending.db).filter(name__startswith=name)
    # In the database, so that a job that was done twice would show.
    assert {1} == set(rows.values_list("value", flat=True))
    assert inspection.lock(f"ledger.Counter@{pending.db}") is None


def do(job: Counter, done: list[str]) -> None:
    Counter.objects.using(job._state.db).filter(pk=job.pk).update(value=F("value") + 1)
    done.append(job.name)


@pytest.mark.parametrize("transaction", [True, False])
def test_eight_workers_do_every_job_exactly_once(
    pending: QuerySet[Counter], name: str, transaction: bool
) -> None:
    done: list[str] = []
    by: Tally[int] = Tally()
    start = threading.Barrier(WORKERS)

    def one() -> bool:
        with lock_rows(pending, skip_locked=True, limit=1) as found:
            for job in found:
                do(job, done)
                by[threading.get_ident()] += 1
        return bool(found)

    def work() -> None:
        start.wait(PATIENCE)
        try:
            more = True
            while more:
                if transaction:
                    with atomic(using=pending.db):
                        more = one()
                else:
                    more = one()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    all_done(pending, name, done)
    assert len(by) > 1


def test_tasks_do_every_job_exactly_once(
    pending: QuerySet[Counter], name: str, in_loop: Any
) -> None:
    done: list[str] = []

    async def work() -> None:
        more = True
        while more:
            async with lock_rows(pending, skip_locked=True, limit=3) as found:
                for job in found:
                    rows = Counter.objects.using(pending.db).filter(pk=job.pk)
                    await rows.aupdate(value=F("value") + 1)
                    done.append(job.name)
            more = bool(found)

    async def all_work() -> None:
        await asyncio.gather(*(work() for _ in range(WORKERS)))

    in_loop(all_work())
    all_done(pending, name, done)
