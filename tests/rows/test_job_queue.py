"""SKIP LOCKED as a job queue: every job is done exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.db import connections
from django.db.models import F, QuerySet
from django.db.transaction import atomic

from redis_locks import LockLost, inspection
from redis_locks.rows import lock_model, lock_rows
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry
from tests.support.rows import Candidate, Find, QuerySource, find_rows
from tests.support.world import PATIENCE, until

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
    # A transaction of SQLite writes alone, so one thread may be ahead each time.
    assert len(by) > 1 or transaction


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


@contextmanager
def locked_by_others(rows: QuerySet[Any]) -> Iterator[None]:
    theirs = in_thread(lock_rows(rows, wait=0).acquire)
    assert theirs
    try:
        yield
    finally:
        theirs.release()


@pytest.mark.parametrize("transaction", [True, False])
def test_a_worker_gets_as_many_as_there_are_behind_those_of_others(
    pending: QuerySet[Counter], transaction: bool
) -> None:
    open_one = atomic(using=pending.db) if transaction else nullcontext()
    with locked_by_others(pending[:22]), open_one:
        with lock_rows(pending, skip_locked=True, limit=10) as found:
            assert list(pending[22:32]) == found
        # All of them are locked, however many holds it took.
        free = in_thread(lock_rows(pending, skip_locked=True).acquire)
        assert free == list(pending[32:] if transaction else pending[22:])
        free.release()
    assert inspection.lock(f"ledger.Counter@{pending.db}") is None


def test_each_row_has_its_own_hold_if_others_were_found_later(pending: QuerySet[Counter]) -> None:
    with locked_by_others(pending[:22]), lock_rows(pending, skip_locked=True, limit=10) as found:
        assert len(found.holds) > 1
        for row in found:
            info = inspection.lock(f"ledger.Counter@{pending.db}:{row.pk}")
            assert info
            assert [holder.token for holder in info.holders] == [found.hold_of(row).token]
        with pytest.raises(ValueError, match="not among"):
            found.hold_of(pending[0])
    with lock_model(Counter, database=pending.db), lock_rows(pending[:1]) as found:
        assert found.hold == found.hold_of(found[0])


def test_rows_that_are_lost_while_others_are_found_are_not_given(
    pending: QuerySet[Counter], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = f"ledger.Counter@{pending.db}:{pending[22].pk}"
    was_held: list[bool] = []

    def read_when_it_is_over(read: Find) -> Any:
        was_held.append(inspection.lock(first) is not None)
        until(lambda: inspection.lock(first) is None)
        return read()

    with locked_by_others(pending[:22]):
        find_rows(monkeypatch, read_when_it_is_over)
        with pytest.raises(LockLost):
            lock_rows(pending, skip_locked=True, limit=10, lease=0.2, renew=False).acquire()
    assert [False, True] == was_held
    assert inspection.lock(f"ledger.Counter@{pending.db}") is None


def test_a_worker_gets_others_for_those_that_were_done_meanwhile(
    pending: QuerySet[Counter], monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_most() -> None:
        with lock_rows(pending, skip_locked=True, limit=20) as theirs:
            for job in theirs:
                do(job, [])

    def read_then_do(read: Find) -> Any:
        found = read()
        monkeypatch.undo()
        in_thread(do_most)
        return found

    find_rows(monkeypatch, read_then_do)
    with lock_rows(pending, skip_locked=True, limit=10) as found:
        assert 10 == len(found)
        assert list(pending[:10]) == sorted(found, key=lambda job: job.pk)
    assert inspection.lock(f"ledger.Counter@{pending.db}") is None


def test_rows_that_a_query_joins_with_many_others_count_once(
    pending: QuerySet[Counter], name: str
) -> None:
    Entry.objects.using(pending.db).bulk_create(
        Entry(book=name, number=40 * place + number, counter=counter)
        for place, counter in enumerate(pending[:4])
        for number in range(40)
    )
    rows = pending.filter(entry__book=name)
    with locked_by_others(pending[:1]):
        for limit, last in ((2, 3), (5, 4)):
            with lock_rows(rows, skip_locked=True, limit=limit) as found:
                assert list(pending[1:last]) == found


def test_rows_that_are_found_later_may_share_a_related_row(
    pending: QuerySet[Counter], name: str
) -> None:
    shared = pending[0]
    entries = Entry.objects.using(pending.db)
    entries.bulk_create(Entry(book=name, number=number, counter=shared) for number in range(40))
    rows = entries.filter(book=name).order_by("number")
    with (
        locked_by_others(rows[:17]),
        lock_rows(rows, skip_locked=True, limit=10, of=("self", "counter")) as found,
    ):
        assert list(range(17, 27)) == [row.number for row in found]
    assert inspection.lock(f"ledger.Counter@{pending.db}") is None


@pytest.mark.usefixtures("transactional_db")
def test_a_backlog_that_does_not_fit_into_one_hold_is_taken_by_several(name: str) -> None:
    counters = Counter.objects.bulk_create(Counter(name=f"{name}:{i}") for i in range(510))
    Entry.objects.bulk_create(
        Entry(book=name, number=i, counter=counter) for i, counter in enumerate(counters)
    )
    rows = Entry.objects.filter(book=name).select_related("counter").order_by("number")
    with lock_rows(rows, skip_locked=True, limit=505) as found:
        assert list(range(505)) == [row.number for row in found]
        assert 2 == len(found.holds)  # 499 rows of each model and the two models fit into one
        rest = in_thread(lock_rows(rows, skip_locked=True).__enter__)
        assert list(range(505, 510)) == [row.number for row in rest]
        rest.release()
    with lock_rows(rows, skip_locked=True) as found:
        assert (510, 1) == (
            len(found),
            len(found.holds),
        )  # one model is locked in place of its rows
        busy = in_thread(lock_rows(rows[:1].get().counter, nowait=True).acquire)
        assert busy is None
    assert inspection.lock("ledger.Entry@default") is None


@pytest.mark.usefixtures("transactional_db")
def test_keys_of_two_columns_are_many(name: str) -> None:
    entry = Entry.objects.create(book=name, number=1100)
    source = QuerySource(Entry.objects.filter(book=name), (), 1, skip_locked=True)
    seen = [(name, number) for number in range(1100)]
    (found,) = source.candidates(seen)
    assert entry.pk == found.pk
    assert [entry] == source.fetch([*(Candidate(pk, ()) for pk in seen), found])[0]
