"""More rows than one hold can have locks: the lock of their model takes the place of theirs."""

from __future__ import annotations

import time

import pytest
from django.db.models import QuerySet
from django.db.transaction import atomic

from redis_locks import LockError, LockNotAvailable, inspection
from redis_locks.rows import lock_model, lock_rows
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry
from tests.rows.locked import lock_of
from tests.support.rows import escalated, row_of
from tests.support.world import World

MODEL = "ledger.Counter@default"
MANY = 1200


@pytest.fixture
def many(transactional_db: None, name: str) -> QuerySet[Counter]:
    """More rows than one hold can have."""
    Counter.objects.bulk_create(Counter(name=f"{name}:{number}") for number in range(MANY))
    return Counter.objects.filter(name__startswith=name).order_by("pk")


@pytest.fixture
def stranger(transactional_db: None) -> Counter:
    """A row of the same model that nobody wants."""
    return Counter.objects.create(name="a stranger")


def modes_of_model() -> list[str]:
    info = inspection.lock(MODEL)
    return [holder.mode for holder in info.holders] if info else []


def test_the_model_is_locked_in_the_mode_of_its_rows(
    world: World, many: QuerySet[Counter], stranger: Counter
) -> None:
    rows = world.acquire(lock_rows(many, "shared"))
    assert MANY == len(rows)  # type: ignore[arg-type]
    assert ["shared"] == modes_of_model()
    assert inspection.lock(lock_of(rows[0])) is None  # type: ignore[index]
    reader = world.acquire(lock_rows(stranger, "key_share", nowait=True))
    assert world.acquire(lock_rows(stranger, nowait=True)) is None
    world.release(reader)
    world.release(rows)
    assert [] == modes_of_model()


def test_a_row_of_another_holder_is_waited_for(
    world: World, many: QuerySet[Counter], stranger: Counter
) -> None:
    hold = world.acquire(lock_rows(stranger))
    with pytest.raises(LockNotAvailable, match=f"Lock '{MODEL}' is held"):
        world.block(lock_rows(many, nowait=True), print)
    world.release(hold)
    world.release(world.acquire(lock_rows(many, nowait=True)))


def test_a_transaction_has_each_row_of_the_model(
    many: QuerySet[Counter], stranger: Counter
) -> None:
    with atomic():
        rows = lock_rows(many).acquire()
        again = lock_rows(stranger, nowait=True).acquire()
        assert rows.hold is again.hold
        assert in_thread(lock_rows(stranger, nowait=True).acquire) is None
    assert [] == modes_of_model()


def test_who_has_a_row_is_told_to_lock_the_model_first(
    many: QuerySet[Counter], stranger: Counter
) -> None:
    way = r"lock the model with lock_model\(\) first"
    with lock_rows(stranger), pytest.raises(LockError, match=way):
        lock_rows(many).acquire()
    with lock_model(Counter), lock_rows(many) as rows:
        assert MANY == len(rows)


def test_only_the_model_with_most_rows_is_locked_as_a_whole() -> None:
    entries = [row_of(Entry, "default", ("a book", number)) for number in range(1500)]
    counters = [row_of(Counter, "default", number) for number in range(3)]
    (whole, *rest) = escalated([*entries, *counters])
    assert "ledger.Entry@default" == whole.model == whole.name
    assert counters == rest
    assert counters == escalated(counters)


def test_rows_that_fit_into_a_hold_are_locked_one_by_one() -> None:
    rows = [row_of(Counter, "default", number) for number in range(999)]
    assert rows == escalated(rows)
    assert 1 == len(escalated([*rows, row_of(Counter, "default", 999)]))


@pytest.mark.ci
@pytest.mark.timed
@pytest.mark.parametrize("skip_locked", [False, True])
def test_ten_thousand_rows_take_less_than_a_second(
    many: QuerySet[Counter], name: str, skip_locked: bool
) -> None:
    Counter.objects.bulk_create(Counter(name=f"{name}:{n}") for n in range(MANY, 10_000))
    taken = []
    for _ in range(3):
        began = time.process_time()
        with lock_rows(many, skip_locked=skip_locked) as rows:
            assert 10_000 == len(rows)
        taken.append(time.process_time() - began)
    assert min(taken) < 1
