"""Rows that are locked by a block, blocking and async."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from django.contrib import admin

from redis_locks import LockBackendError, LockLost, LockNotAvailable, LockTimeout, inspection
from redis_locks.rows import lock_model, lock_rows
from tests.ledger.models import Counter
from tests.rows.conftest import ReadingThreads
from tests.rows.locked import Make, lock_of, locked
from tests.support.admin import LockRow, ServerPages
from tests.support.commands import show
from tests.support.inspection import tell
from tests.support.rows import read_at_once
from tests.support.world import PATIENCE, Observer, World

ROW_MODES = ["key_share", "shared", "no_key", "exclusive"]
# PostgreSQL's Table 13.3: an X where the two row-level locks conflict.
TABLE = {
    "key_share": " .  .  .  X",
    "shared": " .  .  X  X",
    "no_key": " .  X  X  X",
    "exclusive": " X  X  X  X",
}


@pytest.mark.parametrize("held", ROW_MODES)
def test_rows_and_models_exclude_each_other_as_postgresqls_rows_do(
    world: World, counter: Make, held: Any
) -> None:
    row, other = counter(), counter()
    for holding in (lock_rows(row, held), lock_model(Counter, held)):
        holder: Any = world.acquire(holding)
        for wanted in ROW_MODES:
            free = TABLE[wanted].split()[ROW_MODES.index(held)] == "."
            for asked in (
                lock_rows(row, wanted, nowait=True),
                lock_model(Counter, wanted, nowait=True),
            ):
                found: Any = world.acquire(asked)
                assert free == (found is not None)
                if found is not None:
                    world.release(found)
        world.release(holder)
    rows = locked(world, lock_rows(row, held))
    for wanted in ROW_MODES:
        world.release(locked(world, lock_rows(other, wanted, nowait=True)))
    world.release(rows)
    world.release(locked(world, lock_model(Counter, nowait=True)))


def test_a_row_is_read_again_once_it_is_locked(
    world: World, counter: Make, server_side: Observer
) -> None:
    row = counter()
    rows = locked(world, lock_rows(row))
    waiting = world.start(world.acquire, lock_rows(Counter.objects.get(pk=row.pk)))
    server_side.until_waiters(lock_of(row), 1)
    Counter.objects.filter(pk=row.pk).update(value=7)
    world.release(rows)
    (found,) = second = waiting.result(PATIENCE)
    assert 7 == found.value
    assert rows.hold.fencing_token < second.hold.fencing_token
    world.release(second)


def test_a_row_that_no_longer_matches_is_left_out(
    world: World, counter: Make, server_side: Observer
) -> None:
    first, second = counter(), counter()
    rows = locked(world, lock_rows(first))
    pending = Counter.objects.filter(value=0, name__startswith=first.name[:20]).order_by("pk")
    waiting = world.start(world.acquire, lock_rows(pending))
    server_side.until_waiters(lock_of(first), 1)
    Counter.objects.filter(pk=first.pk).update(value=7)
    world.release(rows)
    found: Any = waiting.result(PATIENCE)
    assert [second] == found
    world.release(found)


def test_all_rows_are_locked_in_one_round_trip(
    world: World, counter: Make, own_side: Observer
) -> None:
    rows = [counter() for _ in range(20)]
    world.release(locked(world, lock_rows(rows)))  # connects, and loads the scripts
    before = own_side.commands()
    found = locked(world, lock_rows(Counter.objects.filter(pk__in=[row.pk for row in rows])))
    assert 1 == own_side.commands() - before
    assert {row.pk for row in rows} == {row.pk for row in found}
    assert 1 == len(
        {holder.token for row in rows for holder in inspection.lock(lock_of(row)).holders}
    )
    world.release(found)


def test_nowait_names_row_and_holder(world: World, counter: Make) -> None:
    row, other = counter(), counter()
    rows = locked(world, lock_rows(row, label="the first"))
    with pytest.raises(LockNotAvailable, match=r"Lock .*:\d+' is held") as caught:
        world.block(lock_rows([other, row], nowait=True), list)
    assert lock_of(row) == caught.value.name
    assert "(the first)" in str(caught.value.holder)
    with pytest.raises(LockTimeout, match=r"within 0\.05 s"):
        world.block(lock_rows([other, row], wait=0.05), list)
    world.release(rows)
    assert inspection.lock(lock_of(row)) is inspection.lock(lock_of(other)) is None


def test_the_modes_of_all_holders_are_shown(world: World, counter: Make) -> None:
    row = counter()
    holds = [
        world.start(world.acquire, lock_rows(row, mode)).result(PATIENCE)
        for mode in ("no_key", "key_share")
    ]
    of_row, of_model = inspection.lock(lock_of(row)), inspection.lock("ledger.Counter@default")
    assert ("no_key", "key_share") == of_row.modes
    assert ("intent:no_key", "intent:key_share") == of_model.modes
    shown = "\n".join(show.lines(of_row, None, tell(of_row)))
    assert shown.startswith(f"Lock {lock_of(row)} (no_key, key_share)\n")
    assert ["no_key", "key_share"] == re.findall(r"^  mode +(\w+)$", shown, re.MULTILINE)
    assert (
        "no_key on rows, key_share on rows"
        == LockRow.of(of_model, None, ServerPages(admin.site)).mode
    )
    for each in holds:
        world.release(each)


def test_a_block_releases(world: World, counter: Make) -> None:
    row = counter()

    def body(rows: Any) -> Any:
        info = inspection.lock(lock_of(row))
        assert [rows.hold.token] == [holder.token for holder in info.holders]
        return rows[0].pk

    assert row.pk == world.block(lock_rows(row), body)
    assert inspection.lock(lock_of(row)) is None
    assert inspection.lock("ledger.Counter@default") is None


def test_skip_locked_gives_the_rows_that_are_free(world: World, counter: Make) -> None:
    rows = [counter() for _ in range(4)]
    ours = Counter.objects.filter(pk__in=[row.pk for row in rows]).order_by("pk")
    first = locked(world, lock_rows(ours, skip_locked=True, limit=1))
    assert rows[:1] == first
    second = locked(world, lock_rows(ours, skip_locked=True, limit=2))
    assert rows[1:3] == second
    rest = locked(world, lock_rows(ours, skip_locked=True))
    assert rows[3:] == rest
    none = locked(world, lock_rows(ours, skip_locked=True))
    assert ([], None) == (none, none.hold)
    for found in (first, second, rest, none):
        world.release(found)
    assert rows == world.block(lock_rows(rows, skip_locked=True), list)


def test_skip_locked_goes_on_behind_rows_that_stopped_matching(
    world: World, counter: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read first was done by somebody else before it was locked."""
    read_at_once(monkeypatch, 2)
    rows = [counter() for _ in range(5)]
    ours = Counter.objects.filter(pk__in=[row.pk for row in rows], value=0).order_by("pk")
    block = lock_rows(ours, skip_locked=True, limit=1)
    source: Any = block._locking.source
    read, held = source._read, locked(world, lock_rows(rows[2]))

    def stale(query: Any) -> Any:
        found = read(query)
        Counter.objects.filter(pk__in=[row.pk for row in rows[:2]]).update(value=1)
        return found

    monkeypatch.setattr(source, "_read", stale)
    assert [rows[3]] == world.block(block, list)
    world.release(held)
    assert inspection.lock("ledger.Counter@default") is None


def test_skip_locked_takes_rows_last_that_somebody_had_since_they_were_read(
    world: World, counter: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had them has most likely done what they are wanted for."""
    rows = [counter() for _ in range(3)]
    ours = Counter.objects.filter(pk__in=[row.pk for row in rows]).order_by("pk")
    block = lock_rows(ours, skip_locked=True, limit=2)
    source: Any = block._locking.source
    read = source._read

    def somebody_is_quicker(query: Any) -> Any:
        found = read(query)
        other = ReadingThreads()
        other.release(locked(other, lock_rows(rows[0])))
        return found

    monkeypatch.setattr(source, "_read", somebody_is_quicker)
    assert rows[1:] == world.block(block, list)


def test_an_instance_that_is_gone_is_an_error_and_leaves_nothing(
    world: World, counter: Make
) -> None:
    row = counter()
    Counter.objects.filter(pk=row.pk).delete()
    with pytest.raises(Counter.DoesNotExist):
        world.block(lock_rows(row), list)
    assert inspection.lock(lock_of(row)) is None
    assert [] == world.block(lock_rows(Counter.objects.filter(pk=row.pk)), list)


def test_a_lost_hold_of_rows_says_so(world: World, counter: Make) -> None:
    row = counter()
    with pytest.raises(LockLost):
        world.block(lock_rows(row), lambda _: inspection.force_release(lock_of(row)))


def test_a_hold_of_rows_is_not_upgraded(world: World, counter: Make) -> None:
    rows = locked(world, lock_rows(counter(), "shared"))
    assert "shared" == rows.hold.mode
    for verb in ("upgrade", "downgrade"):
        with pytest.raises(TypeError, match="stronger mode"):
            world.do(rows.hold, verb)
    world.extend(rows.hold, 60)
    assert rows.hold.remaining > 50
    world.release(rows)


def test_a_server_that_is_not_there_is_said(world: World, counter: Make) -> None:
    row = counter()
    for skip_locked in (False, True):
        with pytest.raises(LockBackendError):
            world.block(lock_rows(row, skip_locked=skip_locked, using="unix:///nowhere.sock"), list)


def test_pickled_rows_are_a_plain_list(world: World, counter: Make) -> None:
    rows = locked(world, lock_rows(counter()))
    again = pickle.loads(pickle.dumps(rows))  # noqa: S301
    assert (list, rows) == (type(again), again)
    world.release(rows)
