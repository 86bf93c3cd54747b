"""Rows that the thread or task has locked already, and rows in partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Model
from django.db.transaction import atomic

from redis_locks import Hold, Lock, LockError, LockLost, LockNotAvailable, inspection
from redis_locks.rows import lock_model, lock_rows
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry, NotedCounter
from tests.support import leases
from tests.support.keys import partition_of
from tests.support.rows import after_locking, row_of
from tests.support.world import Tasks, World

Make = Callable[..., Counter]
MODEL = "ledger.Counter@default"


def name_of(row: Model) -> str:
    return row_of(type(row), "default", row.pk).name


def tokens(row: Model) -> list[str]:
    info = inspection.lock(name_of(row))
    return [holder.token for holder in info.holders] if info else []


def in_one(world: World, blocks: Any, ablocks: Any) -> None:
    """Run the blocks in one thread, or the async ones in one task."""
    if isinstance(world, Tasks):
        world.run(ablocks())
    else:
        blocks()


def test_a_row_is_locked_again_at_once_and_the_last_block_releases(
    world: World, counter: Make
) -> None:
    row, other = counter(), counter()

    def check(outer: Any, inner: Any) -> None:
        assert [outer.hold.token] == tokens(row)
        assert [inner.hold.token] == tokens(other)
        assert inner.hold.fencing_token > outer.hold.fencing_token
        assert {outer.hold.token, inner.hold.token} == {hold.token for hold in inner.holds}

    def blocks() -> None:
        with lock_rows(row) as outer:
            with lock_rows([row, other], "shared", wait=0) as inner:
                check(outer, inner)
            assert ([outer.hold.token], []) == (tokens(row), tokens(other))
            again = lock_rows(row, skip_locked=True).acquire()
        assert tokens(row)
        again.release()

    async def ablocks() -> None:
        async with lock_rows(row) as outer:
            async with lock_rows([row, other], "shared", wait=0) as inner:
                check(outer, inner)
            assert ([outer.hold.token], []) == (tokens(row), tokens(other))
            again = await lock_rows(row, skip_locked=True).aacquire()
        assert tokens(row)
        await again.arelease()

    in_one(world, blocks, ablocks)
    assert [] == tokens(row)
    assert inspection.lock(MODEL) is None


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("verb", ["detach", "upgrade", "downgrade"])
def test_a_plain_hold_nested_in_one_of_rows_is_neither_converted_nor_detached(
    world: World, counter: Make, mode: Any, verb: str
) -> None:
    row = counter()
    lock = Lock(name_of(row), mode=mode)

    def nested() -> Hold:
        with lock_rows(row, mode):
            return lock.acquire(wait=0)  # type: ignore[return-value]

    async def anested() -> Hold:
        async with lock_rows(row, mode):
            return await lock.aacquire(wait=0)  # type: ignore[return-value]

    hold: Hold = world.run(anested()) if isinstance(world, Tasks) else nested()
    with pytest.raises(TypeError, match="a hold of rows is neither"):
        world.do(hold, verb)
    world.release(world.acquire(lock_rows(counter(), wait=0)))
    assert [hold.token] == tokens(row)
    world.release(hold)
    assert inspection.lock(MODEL) is None


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_would_wait_for_itself_is_an_error_at_once(
    world: World, counter: Make, by_hand: bool
) -> None:
    row = counter()
    wanted: Any = (
        [Lock(name_of(row)), Lock(MODEL)] if by_hand else [lock_rows(row), lock_model(Counter)]
    )

    def blocks() -> None:
        with lock_rows(row, "shared"):
            for each in wanted:
                with pytest.raises(LockError, match="would wait for its own thread or task"):
                    each.acquire()
            assert ["shared"] == [holder.mode for holder in inspection.lock(name_of(row)).holders]  # type: ignore[union-attr]

    async def ablocks() -> None:
        async with lock_rows(row, "shared"):
            for each in wanted:
                with pytest.raises(LockError, match="would wait for its own thread or task"):
                    await each.aacquire()

    in_one(world, blocks, ablocks)
    assert inspection.lock(MODEL) is None


def test_a_row_that_is_to_be_locked_in_a_stronger_mode_names_the_way(
    world: World, counter: Make
) -> None:
    row = counter()
    way = r"row locks cannot be upgraded: lock it in the stronger mode first"

    def blocks() -> None:
        with lock_rows(row, "no_key"):
            for options in ({}, {"skip_locked": True}):
                with pytest.raises(LockError, match=way):
                    lock_rows(row, **options).acquire()

    async def ablocks() -> None:
        async with lock_rows(row, "no_key"):
            for options in ({}, {"skip_locked": True}):
                with pytest.raises(LockError, match=way):
                    await lock_rows(row, **options).aacquire()

    in_one(world, blocks, ablocks)


def test_who_has_the_model_has_its_rows(world: World, counter: Make) -> None:
    row = counter()

    def blocks() -> None:
        with lock_model(Counter) as hold, lock_rows(row, "no_key") as rows:
            assert hold.token == rows.hold.token  # type: ignore[union-attr]
            assert [] == tokens(row)

    async def ablocks() -> None:
        async with lock_model(Counter) as hold, lock_rows(row, "no_key") as rows:
            assert hold.token == rows.hold.token  # type: ignore[union-attr]
            assert [] == tokens(row)

    in_one(world, blocks, ablocks)
    assert inspection.lock(MODEL) is None


def test_a_model_lock_is_upgraded(world: World, counter: Make) -> None:
    rows = world.acquire(lock_rows(counter(), "key_share"))
    hold = world.acquire(lock_model(Counter, "shared"))
    assert world.acquire(lock_rows(counter(), nowait=True)) is None
    with pytest.raises(LockError, match="is held by"):
        world.do(hold, "upgrade", wait=0)
    world.release(rows)
    world.do(hold, "upgrade")
    assert "exclusive" == hold.mode
    world.release(hold)


def test_rows_live_in_the_partition_of_their_model(
    world: World, counter: Make, settings: Any
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PARTITIONS": 64}
    rows = [counter() for _ in range(3)]
    homes = {partition_of(name, 64) for name in (MODEL, *map(name_of, rows))}
    assert 1 == len(homes)
    assert partition_of("ledger.Entry@default", 64) not in homes
    for skip_locked in (False, True):
        found: Any = world.acquire(lock_rows(rows, skip_locked=skip_locked))
        assert rows == found
        assert inspection.lock(name_of(rows[0])) is not None
        world.release(found)


@pytest.fixture
def entry(world: World, counter: Make, name: str, settings: Any) -> Entry:
    """A row that belongs to a row in another partition."""
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PARTITIONS": 64}
    return Entry.objects.create(book=name, number=1, counter=counter())


def test_rows_of_models_in_several_partitions_are_locked_together(
    world: World, entry: Entry
) -> None:
    both = Entry.objects.filter(book=entry.book).select_related("counter")
    found: Any = world.acquire(lock_rows(both))
    assert ([entry], 1) == (found, len(found.holds))
    others = [tokens(entry.counter), tokens(entry)]
    assert all(others)
    for each in (entry.counter, entry):
        with pytest.raises(LockNotAvailable, match=name_of(each)):
            in_thread(lock_rows(each, nowait=True).__enter__)
    found.hold.check()
    with pytest.raises(TypeError, match="neither upgraded"):
        world.do(found.hold, "upgrade")
    world.release(found)
    assert [[], []] == [tokens(entry.counter), tokens(entry)]
    for each in (entry.counter, entry):
        its = in_thread(lock_rows(each, label="the other").__enter__)
        with pytest.raises(LockNotAvailable, match=rf"(?s){name_of(each)}' is held.*the other"):
            world.block(lock_rows(both, wait=0), print)
        its.release()
        assert [[], []] == [tokens(entry.counter), tokens(entry)]


def test_a_child_and_its_parent_in_several_partitions_are_kept_by_a_transaction(
    name: str, settings: Any, transactional_db: None
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PARTITIONS": 64}
    row = NotedCounter.objects.create(name=name)
    assert 1 < len({partition_of(name_of(each), 64) for each in (row, row.counter_ptr)})
    with atomic():
        with lock_rows(NotedCounter.objects.filter(name=name)) as first:
            assert [row] == first
        assert first.hold is lock_rows(row.counter_ptr).acquire().hold  # type: ignore[union-attr]
        assert tokens(row)
        assert tokens(row.counter_ptr)
    assert [[], []] == [tokens(row), tokens(row.counter_ptr)]


def test_skip_locked_does_not_reach_several_partitions(world: World, entry: Entry) -> None:
    rows = Entry.objects.filter(book=entry.book)
    with pytest.raises(ValueError, match=r"skip_locked .* ledger.Entry@default, .*PARTITIONS"):
        world.acquire(lock_rows(rows.select_related("counter"), skip_locked=True))
    found: Any = world.acquire(lock_rows(rows, skip_locked=True))
    assert [entry] == found
    world.release(found)


def test_a_block_that_finds_one_of_its_holds_lost_releases_the_others(
    tasks: Tasks, counter: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, other = counter(), counter()

    async def blocks() -> None:
        async with lock_rows(row):
            after_locking(monkeypatch, lambda rows: leases.mark_lost(rows.holds[-1]))
            with pytest.raises(LockLost):
                async with lock_rows([row, other]):
                    pytest.fail("its hold is lost")

    with pytest.raises(LockLost):
        tasks.run(blocks())
    assert [] == tokens(other)
