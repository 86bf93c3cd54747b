"""Rows that a transaction keeps locked, and `select_for_lock`."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from django.db.transaction import TransactionManagementError, atomic

from redis_locks import LockError, LockLost, LockNotAvailable, inspection
from redis_locks.rows import RedisLockQuerySet, lock_model, lock_rows
from tests.django.transactions import elsewhere
from tests.ledger.models import Counter, Entry
from tests.support.rows import row_of
from tests.support.world import PATIENCE, Observer


class Failed(Exception):
    pass


@pytest.fixture
def row(database: str, name: str) -> Counter:
    return Counter.objects.using(database).create(name=name)


def lock_of(row: Counter) -> str:
    return row_of(Counter, row._state.db, row.pk).name


def is_locked(row: Counter) -> bool:
    return inspection.lock(lock_of(row)) is not None


def queryset(row: Counter) -> RedisLockQuerySet[Counter]:
    return RedisLockQuerySet(Counter).using(row._state.db).filter(pk=row.pk)


def next_holder(row: Counter, server_side: Observer) -> Future[int]:
    """Somebody who waits for the row; already in the queue. What it reads then."""

    def look() -> int:
        with lock_rows(queryset(row), wait=PATIENCE) as (found,):
            return found.value

    found = elsewhere(look)
    server_side.until_waiters(lock_of(row), 1)
    return found


def test_rows_stay_locked_until_after_commit(
    database: str, row: Counter, server_side: Observer
) -> None:
    with atomic(using=database):
        with lock_rows(row) as (locked,):
            seen = next_holder(row, server_side)
            locked.value = 7
            locked.save()
        assert is_locked(row)
    assert 7 == seen.result(PATIENCE)
    assert not is_locked(row)


def test_a_savepoint_rolled_back_lets_its_rows_go(database: str, row: Counter) -> None:
    with atomic(using=database):
        with suppress(Failed), atomic(using=database):
            lock_rows(row).acquire()
            assert is_locked(row)
            raise Failed
        assert not is_locked(row)


def test_in_one_transaction_a_row_is_locked_once(database: str, row: Counter, name: str) -> None:
    other = Counter.objects.using(database).create(name=f"{name}:other")
    with atomic(using=database):
        first = lock_rows(row).acquire()
        with lock_rows(row, "shared") as again:
            assert again.hold is first.hold
        with lock_rows([row, other]) as both:
            assert [row, other] == both
            assert both.hold is not first.hold
        assert lock_rows([other, row], skip_locked=True).acquire() == [other, row]
        assert is_locked(row)
        assert is_locked(other)
    assert not is_locked(row)
    assert not is_locked(other)
    assert inspection.lock(f"ledger.Counter@{database}") is None


def test_what_the_transaction_has_counts_among_what_is_free(
    database: str, row: Counter, name: str
) -> None:
    rows = [row, *(Counter.objects.using(database).create(name=f"{name}:{i}") for i in range(2))]
    with atomic(using=database):
        lock_rows(rows[1]).acquire()
        assert rows[:2] == lock_rows(rows, skip_locked=True, limit=2).acquire()
        assert not is_locked(rows[2])


def test_a_row_is_not_locked_more_strongly_in_the_same_transaction(
    database: str, row: Counter
) -> None:
    with atomic(using=database):
        lock_rows(row, "shared").acquire()
        for skip_locked in (False, True):
            with pytest.raises(LockError, match="would wait for its own thread"):
                lock_rows(row, skip_locked=skip_locked).acquire()
        with pytest.raises(LockError, match="would wait for its own thread"):
            lock_model(Counter, database=database).acquire()
    lock_model(Counter, database=database, nowait=True).acquire().release()  # type: ignore[union-attr]


def test_a_locked_model_has_all_its_rows(database: str, row: Counter) -> None:
    with atomic(using=database):
        model = lock_model(Counter, database=database).acquire()
        with lock_rows(row, "no_key") as rows:
            assert rows.hold is model
        assert not is_locked(row)
        assert model is lock_model(Counter, "shared", database=database).acquire()
    assert inspection.lock(f"ledger.Counter@{database}") is None


def test_a_lost_row_rolls_back(database: str, row: Counter) -> None:
    with pytest.raises(LockLost), atomic(using=database), lock_rows(row) as (locked,):
        locked.value = 7
        locked.save()
        inspection.force_release(lock_of(row))
    row.refresh_from_db()
    assert 0 == row.value


def test_rows_locked_again_are_verified_if_one_of_the_two_wants_it(
    database: str, row: Counter
) -> None:
    with pytest.raises(LockLost), atomic(using=database):
        with lock_rows(row, commit_guard=False) as (locked,):
            locked.value = 7
            locked.save()
        with lock_rows(row):
            pass
        inspection.force_release(lock_of(row))
    row.refresh_from_db()
    assert 0 == row.value


def test_the_scope_of_a_block_ends_with_it(database: str, row: Counter) -> None:
    with atomic(using=database):
        with lock_rows(row, scope="block"):
            assert is_locked(row)
        assert not is_locked(row)


def test_a_fenced_row_is_saved_with_the_hold_of_its_row(database: str, row: Counter) -> None:
    with atomic(using=database), lock_rows(row) as rows:
        row.value = 7
        row.save(hold=rows.hold)
    row.refresh_from_db()
    assert (7, rows.hold.fencing_token) == (row.value, row.fence)  # type: ignore[union-attr]


def test_a_queryset_locks_its_rows_when_it_is_evaluated(
    database: str, row: Counter, server_side: Observer
) -> None:
    with atomic(using=database):
        rows = queryset(row).select_for_lock()
        assert not is_locked(row)
        found = rows.get()
        seen = next_holder(row, server_side)
        found.value = 7
        found.save()
    assert 7 == seen.result(PATIENCE)


def test_a_queryset_keeps_what_it_was(database: str, row: Counter) -> None:
    with atomic(using=database):
        rows = queryset(row).select_for_lock("no_key", wait=1)
        assert [(row.pk, row.name)] == list(rows.values_list("pk", "name"))
        assert [{"value": 0}] == list(rows.values("value"))
        assert row == rows.first()
        assert [row] == list(rows.iterator()) == list(rows.order_by("name")[:5])
        assert 1 == rows.count()
        assert [] == list(rows.filter(value=9))
        assert "no_key" == inspection.lock(lock_of(row)).mode  # type: ignore[union-attr]


def test_a_queryset_needs_a_transaction(database: str, row: Counter, in_loop: Any) -> None:
    rows = queryset(row).select_for_lock()
    with pytest.raises(TransactionManagementError, match=r"needs a transaction.*`with lock_rows\("):
        list(rows)

    async def evaluate() -> Any:
        return [each async for each in rows.aiterator()]

    with pytest.raises(TransactionManagementError, match="needs a transaction"):
        in_loop(evaluate())


def test_a_queryset_raises_or_skips(database: str, row: Counter) -> None:
    held = elsewhere(lock_rows(row, label="the first").acquire).result(PATIENCE)
    with atomic(using=database):
        with pytest.raises(LockNotAvailable, match=r"is held by .*the first"):
            list(queryset(row).select_for_lock(nowait=True))
        assert [] == list(queryset(row).select_for_lock(skip_locked=True)[:1])
    held.release()
    with atomic(using=database):
        assert [row] == list(queryset(row).select_for_lock(skip_locked=True)[:1])


def test_related_rows_come_prefetched_from_a_manager(transactional_db: None, name: str) -> None:
    counter = Counter.objects.create(name=name)
    entry = Entry.objects.create(book=name, number=1, counter=counter)
    with atomic():
        rows = Entry.objects.filter(book=name).prefetch_related("counter").select_for_lock()
        (found,) = rows
        assert entry == found
        assert not is_locked(counter)
        list(Entry.objects.select_related("counter").select_for_lock(of=["self", "counter"]))
        assert is_locked(counter)


def test_plain_querysets_iterate_as_ever(in_loop: Any, name: str) -> None:
    entry = Entry.objects.create(book=name, number=1)

    async def iterate() -> list[Entry]:
        return [each async for each in Entry.objects.filter(book=name).aiterator()]

    assert [entry] == list(Entry.objects.filter(book=name).iterator(10))
    assert [entry] == in_loop(iterate())


def test_a_row_that_a_join_finds_twice_is_there_once(database: str, row: Counter) -> None:
    for number in range(3):
        Entry.objects.using(database).create(book=row.name, number=number, counter=row)
    rows = queryset(row).filter(entry__book=row.name)
    with atomic(using=database):
        assert [row] == list(rows.select_for_lock()[:1]) == list(rows.select_for_lock())
        assert [(row.pk,)] == list(rows.select_for_lock().values_list("pk")[:1])
        assert row == rows.select_for_lock().first()
    with lock_rows(rows, skip_locked=True, limit=2) as found:
        assert [row] == found


def test_a_fenced_model_with_its_rows_to_be_locked_is_written_under_a_hold(
    database: str, row: Counter
) -> None:
    with lock_rows(queryset(row)) as rows:
        assert 1 == queryset(row).fenced(rows.hold).update(value=7)
        assert rows.hold.fencing_token == queryset(row).get().fence
