"""Lock rows: read which rows there are, lock them all in one step, and read them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from asgiref.sync import sync_to_async
from django.db.models import Model

from redis_locks.exceptions import LockError
from redis_locks.locks.contention import not_available
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Side
from redis_locks.locks.scope import Scope
from redis_locks.locks.transactions import Keepers
from redis_locks.protocol.store import Refused
from redis_locks.rows.names import Row
from redis_locks.rows.reentrancy import Earlier
from redis_locks.rows.sets import RowSet, fitting, rows_in
from redis_locks.rows.sources import Candidate, Source
from redis_locks.rows.sqlite import require_lock_at_begin
from redis_locks.values import modes

M = TypeVar("M", bound=Model)
T = TypeVar("T")


class LockedRows(list[M]):
    """Locked rows, as they are now: a list of instances.

    Attributes:
        hold: The hold of the rows: to `check()`, to `extend()`, or for `save(hold=…)` of a
            `FencedModel`. None if nothing was locked: there are no rows, or `of` names only
            relations that lead nowhere.
        holds: All holds of the rows. There are several if the thread, task or transaction had
            locked some of the rows before; `hold` is the latest.
    """

    hold: Hold | None = None
    holds: tuple[Hold, ...] = ()

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


class _Locked(NamedTuple):
    """Candidates that are locked now, and the new hold of those `rows` that were not locked before."""

    candidates: Sequence[Candidate]
    rows: list[Row]
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class Locking(Generic[M]):
    """Which rows to lock, and how. `options` are those of `Lock`."""

    source: Source[M]
    mode: modes.RowMode
    skip_locked: bool
    scope: Scope
    options: dict[str, Any]

    async def lock(self, side: Side, wait: float | None) -> LockedRows[M]:
        """Return the rows, locked and read again.

        Raises:
            LockNotAvailable: Somebody else still held one, which the error names, after `wait` seconds.
            ImproperlyConfigured: This is inside a transaction of SQLite that began without a lock.
        """
        until = None if wait is None else monotonic() + wait
        keepers = self._keepers(side)
        seen: set[Any] = set()
        while candidates := await _read(side, self._candidates, seen):
            earlier = Earlier(side, keepers, self.mode)
            hold: Hold | None = None
            try:
                locked = await self._lock(side, earlier, candidates, wait, until)
                hold = locked.hold
                found = await self._still(side, locked.candidates)
                if found:
                    return _done(earlier, locked, found)
            except BaseException as error:
                await _let_go(side, [hold, *earlier.nested], error)
                raise
            await _let_go(side, [hold, *earlier.nested])
            if self.skip_locked:
                seen.update(each.pk for each in locked.candidates or candidates)
        return LockedRows()

    def _candidates(self, seen: set[Any]) -> list[Candidate]:
        require_lock_at_begin(self.source.database)
        found = self.source.candidates(seen)
        if self.skip_locked and self.source.limit is not None:
            # The next round looks at the rest, if somebody else holds these.
            return found[: fitting([each.rows for each in found])]
        return found

    def _keepers(self, side: Side) -> Keepers | None:
        if side.task:
            self.scope.refuse_async()
            return None
        return self.scope.keepers()

    async def _lock(
        self,
        side: Side,
        earlier: Earlier,
        candidates: Sequence[Candidate],
        wait: float | None,
        until: float | None,
    ) -> _Locked:
        groups = [earlier.missing(each.rows) for each in candidates]
        most = self.source.limit or len(groups)
        missing = rows_in(groups)
        if not missing:
            return _Locked(candidates[:most], [], None)
        wanted = RowSet(missing, self.mode, **self.options)
        if self.skip_locked:
            hold, found = await wanted.take_free(side, groups, most)
            chosen = [candidates[number] for number in found]
            return _Locked(chosen, rows_in(groups[number] for number in found), hold)
        left = None if until is None else max(0.0, until - monotonic())
        outcome = await wanted.acquire_all(side, left)
        if isinstance(outcome, Refused):
            raise not_available(wanted.names[outcome.place], outcome, wait)
        return _Locked(candidates, missing, outcome)

    async def _still(self, side: Side, locked: Sequence[Candidate]) -> list[M]:
        """Return the rows as they are now; none if a lock for one of them is missing."""
        if not locked:
            return []
        found, now = await _read(side, self.source.fetch, locked)
        had = {row for candidate in locked for row in candidate.rows}
        return found if all(had.issuperset(candidate.rows) for candidate in now) else []


def _done(earlier: Earlier, locked: _Locked, found: list[M]) -> LockedRows[M]:
    rows = LockedRows(found)
    if locked.hold is not None:
        earlier.keep(locked.hold, locked.rows)
    rows.holds = tuple(hold for hold in (locked.hold, *earlier.used()) if hold is not None)
    rows.hold = max(rows.holds, key=lambda hold: hold.fencing_token, default=None)
    return rows


async def _read(side: Side, work: Callable[..., T], *args: Any) -> T:
    """Run `work`, which asks the database; in async code, in a thread."""
    return await sync_to_async(work)(*args) if side.task else work(*args)


async def _let_go(
    side: Side, holds: Iterable[Hold | None], error: BaseException | None = None
) -> None:
    """Release all holds after a block that ended with `error`; raises the first LockError."""
    failure: LockError | None = None
    for hold in holds:
        if hold is None:
            continue
        try:
            await hold.end(side.driver, error)
        except LockError as its:
            failure = failure or its
    if failure is not None:
        raise failure
