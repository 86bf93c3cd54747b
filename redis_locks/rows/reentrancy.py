"""Rows that the transaction, the thread or the task has locked already: they are not locked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redis_locks.locks.held_until_commit import Taken
from redis_locks.locks.hold import Hold
from redis_locks.locks.nesting import refuse_waiting_for_itself, taken_by
from redis_locks.locks.runtime import Side
from redis_locks.locks.scope import Transaction
from redis_locks.protocol import ownership
from redis_locks.protocol.ownership import Tenure
from redis_locks.rows.names import Row
from redis_locks.rows.sets import RowHold
from redis_locks.values import modes
from redis_locks.values.identity import session


class Earlier:
    """What there is of the rows that are to be locked in `mode`.

    What the transaction keeps is used as it is; what else the thread or task has gets a hold
    nested in it.
    """

    def __init__(self, side: Side, transaction: Transaction | None, mode: modes.RowMode) -> None:
        self._backend = side.backend
        self._held = session(task=side.task).held
        self._transaction = transaction
        self._mode = mode
        self._kept: dict[Hold, None] = {}
        self._nested: dict[Tenure, Hold] = {}

    @property
    def nested(self) -> list[Hold]:
        """The holds that were nested, to be released."""
        return list(self._nested.values())

    def used(self) -> list[Hold]:
        """Return the holds that have the rows, nested ones kept by the transaction from now on."""
        if self._transaction is not None:
            for its, hold in self._nested.items():
                self._transaction.keep(hold, taken_by(its, self._backend))
        return [*self._kept, *self._nested.values()]

    def missing(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are not locked yet.

        Raises:
            LockError: One is locked in a weaker mode, so that the wait would be for itself.
            LockLost: What the transaction keeps is lost, and so is its work.
        """
        found = [row for row in rows if not self._has(row)]
        if found:
            wanted = self._taken(found)
            held = ownership.find(self._held, self._backend, wanted.names)
            refuse_waiting_for_itself(held, wanted)
        return found

    def keep(self, hold: Hold, rows: Sequence[Row]) -> None:
        """Have the transaction, if there is one, keep the new hold of `rows` until it ends."""
        if self._transaction is not None:
            self._transaction.keep(hold, self._taken(rows))

    def _has(self, row: Row) -> bool:
        kept = self._transaction and self._transaction.find(
            lambda its: its.backend is self._backend and self._covers(its, row)
        )
        if kept is not None:
            self._kept[kept] = None
            return True
        found = ownership.find(self._held, self._backend, row)
        return any(
            self._covers(taken_by(its, self._backend), row) and self._join(its) for its in found
        )

    def _covers(self, its: Taken, row: Row) -> bool:
        return any(modes.covers(its.mode_of(name), self._mode) for name in its.names & {*row})

    def _join(self, its: Tenure) -> bool:
        if its in self._nested:
            return True
        hold = RowHold(self._backend, its)
        if its.join(hold):
            self._nested[its] = hold
            return True
        return False  # another thread released just now

    def _taken(self, rows: Sequence[Row]) -> Taken:
        models = frozenset(row.model for row in rows)
        names = models.union(row.name for row in rows)
        return Taken(self._backend, names, self._mode, models)
