"""Lock rows: read which rows there are, lock them all in one step, and read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar

from asgiref.sync import sync_to_async
from django.db.models import Model

from redis_locks.locks.contention import not_available
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Side
from redis_locks.locks.scope import Scope
from redis_locks.locks.transactions import Keepers
from redis_locks.protocol.store import Refused
from redis_locks.rows.names import Row, row_of
from redis_locks.rows.row_holds import RowHolds
from redis_locks.rows.sets import RowSet, escalated, fitting, rows_in
from redis_locks.rows.sources import Candidate, RowSource
from redis_locks.rows.sqlite import require_lock_at_begin
from redis_locks.values import modes
from redis_locks.values.keys import MAX_SET

M = TypeVar("M", bound=Model)
T = TypeVar("T")


class LockedRows(list[M]):
    """Locked rows, as they are now: a list of instances.

    Pickled, it is a plain list: holds stay in their process.

    Attributes:
        hold: The latest hold of the rows. None if nothing was locked: there are no rows, or
            `of` names only relations that lead nowhere.
        holds: All holds of the rows: `check()` and `extend()` each of them. There are several if
            the thread, task or transaction had locked some of the rows before. With `skip_locked`,
            also if it read on to reach `limit`, or if there were too many rows for one hold.
    """

    hold: Hold | None = None
    holds: tuple[Hold, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def hold_of(self, row: Model) -> Hold:
        """Return the hold that has `row`, for `save(hold=…)` of a `FencedModel`.

        Raises:
            ValueError: None of the holds has it.
        """
        model, name = row_of(type(row), row._state.db or "default", row.pk)
        having = [
            hold for hold in self.holds if any({model, name} & _whole(part) for part in hold.parts)
        ]
        if not having:
            raise ValueError(f"{row!r} is not among these locked rows")
        return max(having, key=lambda hold: hold.fencing_token)

    def release(self) -> None:
        """Release the rows; see `Hold.release`. Does nothing if there are no rows."""
        with ExitStack() as stack:
            for hold in self.holds:
                stack.callback(hold.release)

    async def arelease(self) -> None:
        """Release the rows; see `release`."""
        async with AsyncExitStack() as stack:
            for hold in self.holds:
                stack.push_async_callback(hold.arelease)


def _whole(hold: Hold) -> set[str]:
    """Return the names of the locks that a hold has.

    It leaves out locks of which it has the intent only.
    """
    return {*hold.lease.names} - hold.lease.intents


@dataclass(frozen=True, slots=True)
class Locking(Generic[M]):
    """Which rows to lock, and how. `options` are those of `Lock`."""

    source: RowSource[M]
    mode: modes.RowMode
    skip_locked: bool
    scope: Scope
    options: Mapping[str, Any]

    async def lock(self, side: Side, wait: float | None) -> LockedRows[M]:
        """Return the rows, locked and read again.

        Raises:
            LockNotAvailable: Somebody else still held one, which the error names, after `wait`
                seconds.
            LockLost: A hold of some of the rows was lost while others were locked.
            ImproperlyConfigured: This is inside a transaction of SQLite that began without a lock.
        """
        until = None if wait is None else monotonic() + wait
        keepers, most = self._keepers(side), self.source.limit
        seen: set[Any] = set()
        locked_rows: list[M] = []
        readings: list[RowHolds] = []
        try:
            while most is None or len(locked_rows) < most:
                since = monotonic()
                candidates = await _read(side, self._candidates, seen)
                if not candidates:
                    break
                readings.append(holds := RowHolds(side, keepers, self.mode))
                left = None if most is None else most - len(locked_rows)
                locked = await self._lock(side, holds, candidates, wait, until, since, left)
                rows = await self._still(side, locked)
                locked_rows += rows[:left]
                if not rows:
                    await _let_go(side, readings.pop().to_release)
                elif not self.skip_locked or left is None:
                    break
                if self.skip_locked:
                    # All were tried, if there was room for more. So each reading adds some, and the
                    # last one finds none: how many rows there are does not follow from one that
                    # joins them with others.
                    tried = locked if len(locked) == left else candidates
                    seen.update(each.pk for each in tried)
            for hold in _to_release(readings):
                # The first ones may be over by now, and those who had their rows since have lower
                # fencing tokens than the last one.
                hold.check()
        except BaseException as error:
            await _let_go(side, _to_release(readings), error)
            raise
        done = LockedRows(locked_rows)
        done.holds = tuple([hold for holds in readings for hold in holds.keep()])
        done.hold = max(done.holds, key=lambda hold: hold.fencing_token, default=None)
        return done

    def _candidates(self, seen: set[Any]) -> list[Candidate]:
        require_lock_at_begin(self.source.database)
        return self.source.candidates(seen)

    def _keepers(self, side: Side) -> Keepers | None:
        if side.driver.suspends:
            self.scope.refuse_async()
            return None
        keepers = self.scope.keepers()
        if keepers is not None:
            # All that the thread runs is inside the transaction.
            side.where = side.session.held.party
        return keepers

    async def _lock(
        self,
        side: Side,
        holds: RowHolds,
        candidates: Sequence[Candidate],
        wait: float | None,
        until: float | None,
        since: float,
        most: int | None,
    ) -> Sequence[Candidate]:
        """Return the candidates that are locked now."""
        groups = [holds.missing(each.rows) for each in candidates]
        rows = rows_in(groups)
        if self.skip_locked or not rows:
            return await self._take_free(side, holds, candidates, groups, since, most)
        missing = escalated(rows)
        if missing is not rows:
            holds.refuse_own(
                missing, "to lock so many rows, lock the model with lock_model() first"
            )
        wanted = RowSet(missing, self.mode, **self.options)
        left = None if until is None else max(0.0, until - monotonic())
        outcome = await wanted.acquire_all(side, left)
        if isinstance(outcome, Refused):
            raise not_available(wanted.names[outcome.place], outcome, wait)
        holds.acquired[outcome] = missing
        return candidates

    async def _take_free(
        self,
        side: Side,
        holds: RowHolds,
        candidates: Sequence[Candidate],
        groups: Sequence[Sequence[Row]],
        since: float,
        limit: int | None,
    ) -> Sequence[Candidate]:
        """Take what is free: all at once by the model's lock, or as many as fit into one hold."""
        rows = rows_in(groups)
        whole = escalated(rows)
        if whole is not rows and limit is None:
            wanted = RowSet(whole, self.mode, **self.options)
            outcome = await wanted.acquire_all(side, 0.0)
            if not isinstance(outcome, Refused):
                holds.acquired[outcome] = whole
                return candidates
        most, done = limit or len(groups), 0
        chosen: list[Candidate] = []
        while done < len(groups) and len(chosen) < most:
            part = groups[done : done + fitting(groups[done : done + MAX_SET])]
            rows, hold = rows_in(part), None
            found = list(range(min(len(part), most - len(chosen))))
            if rows:
                wanted = RowSet(rows, self.mode, **self.options)
                hold, found = await wanted.take_free(side, part, most - len(chosen), since=since)
            if hold is not None:
                holds.acquired[hold] = rows_in(part[number] for number in found)
            chosen += (candidates[done + number] for number in found)
            done += len(part)
        return chosen

    async def _still(self, side: Side, locked: Sequence[Candidate]) -> list[M]:
        """Return the rows as they are now; none if a lock for one of them is missing."""
        if not locked:
            return []
        found, now = await _read(side, self.source.fetch, locked)
        had = {row for candidate in locked for row in candidate.rows}
        return found if all(had.issuperset(candidate.rows) for candidate in now) else []


def _to_release(readings: Iterable[RowHolds]) -> list[Hold]:
    return [hold for holds in readings for hold in holds.to_release]


async def _read(side: Side, work: Callable[..., T], *args: Any) -> T:
    """Run `work`, which asks the database; in async code, in a thread."""
    return await sync_to_async(work)(*args) if side.driver.suspends else work(*args)


async def _let_go(side: Side, holds: Iterable[Hold], error: BaseException | None = None) -> None:
    """Release all holds after a block that ended with `error`; raises the LockError of one."""
    async with AsyncExitStack() as stack:
        for hold in holds:
            stack.push_async_callback(hold.end, side.driver, error)
