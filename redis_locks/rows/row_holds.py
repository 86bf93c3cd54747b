"""The holds of some rows: new ones, and those that the transaction, thread or task has already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Side
from redis_locks.locks.nesting import nested_hold
from redis_locks.locks.self_waits import around, refuse_waiting_for_itself, taken_by
from redis_locks.locks.transactions import Keepers
from redis_locks.protocol.lease import Lease
from redis_locks.rows.names import Row
from redis_locks.rows.sets import RowHold, models_of
from redis_locks.values import modes
from redis_locks.values.modes import Taken


class RowHolds:
    """The holds of the rows that one reading found, which the caller wants to lock in `mode`.

    A hold that the transaction keeps is used as it is. In any other hold that the thread or task
    has already, a new one is nested.
    """

    def __init__(self, side: Side, keepers: Keepers | None, mode: modes.RowMode) -> None:
        self.acquired: dict[Hold, Sequence[Row]] = {}
        """The rows of each new hold."""
        self._backend = side.backend
        self._side = side
        self._keepers = keepers
        self._mode = mode
        self._kept: dict[Hold, None] = {}
        self._nested: dict[Lease, Hold] = {}

    @property
    def to_release(self) -> list[Hold]:
        """The holds that were acquired or nested."""
        return [*self.acquired, *self._nested.values()]

    def keep(self) -> list[Hold]:
        """Return the holds of the rows; the transaction, if there is one, keeps all from now on."""
        if self._keepers is not None:
            for hold, rows in self.acquired.items():
                self._keepers.keep(hold, self._taken(rows))
            for lease, hold in self._nested.items():
                self._keepers.keep(hold, taken_by(lease, self._backend))
        return [*self.acquired, *self._kept, *self._nested.values()]

    def missing(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are not locked yet.

        Raises:
            LockError: The caller has locked a row in a weaker mode, so it would wait for itself.
            LockLost: The transaction's hold is lost, and so is its work.
        """
        missing = [row for row in rows if not self._has(row)]
        if missing:
            self.refuse_own(
                missing, "row locks cannot be upgraded: lock it in the stronger mode first"
            )
        return missing

    def refuse_own(self, rows: Sequence[Row], advice: str) -> None:
        """Raise LockError if the caller itself has a lock that excludes those of `rows`.

        The error gives this advice.
        """
        wanted = self._taken(rows)
        refuse_waiting_for_itself(self._found(wanted.names), wanted, advice=advice)

    def _has(self, row: Row) -> bool:
        if self._keepers is not None:
            for name in row:
                taken = Taken(self._backend, frozenset({name}), self._mode)
                kept = self._keepers.find(taken, _guards)
                if kept is not None:
                    self._kept[kept] = None
                    return True
        return any(
            self._covers(taken_by(lease, self._backend), row) and self._join(lease)
            for lease in self._found(row)
        )

    def _found(self, names: Iterable[str]) -> set[Lease]:
        return around(self._side.session, self._backend, names, _guards)

    def _covers(self, taken: Taken, row: Row) -> bool:
        return any(modes.covers(taken.mode_of(name), self._mode) for name in taken.names & {*row})

    def _join(self, lease: Lease) -> bool:
        if lease in self._nested:
            return True
        hold = nested_hold(RowHold, self._backend, lease, self._side.where, self._side.block)
        if hold is None:
            return False  # another thread has just released it
        self._nested[lease] = hold
        return True

    def _taken(self, rows: Sequence[Row]) -> Taken:
        models = frozenset(models_of(rows))
        names = models.union(row.name for row in rows)
        return Taken(self._backend, names, self._mode, models)


def _guards(held: Hold | Lease) -> bool:
    """Whether `held` is a real hold: row locks never go on without their server."""
    return not held.is_unguarded
