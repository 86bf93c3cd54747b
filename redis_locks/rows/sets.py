"""The locks of some rows as one set: acquire all of them at once, or those that are free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, NoReturn

from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Driver, Link
from redis_locks.locks import partitions
from redis_locks.locks.hold import Hold
from redis_locks.locks.hold_errors import refuse_rows
from redis_locks.locks.lock import Lock, Side
from redis_locks.locks.options import varied
from redis_locks.locks.partitions import SpreadHold
from redis_locks.protocol import acquire, store
from redis_locks.protocol.plans import Plan
from redis_locks.protocol.retry import at_last, persist
from redis_locks.protocol.store import Granted, Refused, Won
from redis_locks.rows.names import Row
from redis_locks.values.keys import MAX_SET, Group
from redis_locks.values.modes import RowMode

_PATIENCE = 1.0
"""Seconds for which a broken connection leads to another try to take free rows."""


class RowHold(Hold):
    """A hold of rows, and of the intent on their models."""

    def _refuse(self, **_: object) -> NoReturn:
        """Not for rows; raises TypeError."""
        refuse_rows()

    upgrade = aupgrade = downgrade = adowngrade = detach = adetach = _refuse


class SpreadRowHold(RowHold, SpreadHold):
    """A hold of rows whose models are in several partitions."""


class RowSet(Lock):
    """Rows in one mode, and their models in its intent.

    Or models in the mode, in place of their rows.

    Raises:
        ValueError: There are more locks than one hold can have.
    """

    _hold_type = RowHold

    def __init__(self, rows: Sequence[Row], mode: RowMode, **options: Any) -> None:
        models = models_of(rows)
        names = tuple(dict.fromkeys(row.name for row in rows))
        super().__init__(*models, *names, **options)
        self.row_mode = mode
        self._rows, self._given = rows, options
        own = f"intent:{len(models)}:{mode}" if models else mode
        # Rows never go on without their lock.
        self.options = varied(self.options, mode=own, shown_mode=mode, on_unavailable="raise")

    @property
    def _name(self) -> str:
        first, *others = dict.fromkeys(row.name for row in self._rows)
        return f"{first} and {len(others)} more" if others else first

    async def _nested(self, side: Side, plan: Plan, wait: float | None) -> None:
        """What the caller has is looked for before: see `RowHolds`."""

    async def acquire_all(self, side: Side, wait: float | None) -> Hold | Refused:
        """Return a hold of all rows, or the refusal of one.

        That was still held after `wait` seconds.
        """
        plans = [self._plan_for(side.backend, group) for group in side.backend.groups(self._names)]
        if len(plans) == 1:
            return await self._acquired(side, plans[0], wait)

        async def take(plan: Plan, left: float | None) -> Hold | Refused:
            names = set(plan.names)
            part = [row for row in self._rows if row.name in names]
            wanted = RowSet(part, self.row_mode, **self._given)
            own = wanted._plan_for(side.backend, (plan.names, plan.keys))
            outcome = await wanted._acquired(side, own, left, renews=True)
            if isinstance(outcome, Refused):
                return outcome._replace(place=self._names.index(plan.names[outcome.place]))
            return outcome

        return await partitions.acquire(side.driver, take, plans, wait, SpreadRowHold)

    def _plan_for(self, backend: Backend, group: Group) -> Plan:
        """Return how to ask for rows of one partition."""
        return Plan(self.options.terms(backend), *group, self._name)

    async def take_free(
        self, side: Side, groups: Sequence[Sequence[Row]], most: int, *, since: float
    ) -> tuple[Hold | None, list[int]]:
        """Return a hold of the groups of rows that are free, `most` at most, and their numbers.

        Rows that somebody had after `since`, by the clock of `monotonic`, come last.
        Never waits. A group is taken as a whole or not at all; a group without rows is free.
        An interrupt leaves nothing locked.

        Raises:
            ValueError: The models are in several partitions, which one step cannot reach.
        """
        own, *others = side.backend.groups(self._names)
        if others:
            models = dict.fromkeys(row.model for row in self._rows)
            raise ValueError(
                f"skip_locked cannot be used with rows of {', '.join(models)}, which are in "
                "several "
                'partitions: leave it out, give of=("self",), or set REDIS_LOCKS["PARTITIONS"] to 1'
            )
        # Its block has it until it has what was granted, so that an interrupt takes that back.
        asking = self._hold_of(side, self._plan_for(side.backend, own))
        places = {name: place for place, name in enumerate(self._names)}
        wanted = [sorted({places[name] for row in group for name in row}) for group in groups]
        won, granted = await _take(side.driver, asking, wanted, most, since)
        if won is None:
            asking.lease.leave(asking)
            return None, granted
        chosen = RowSet(rows_in(groups[number] for number in granted), self.row_mode, **self._given)
        names = chosen._names
        plan = chosen._plan_for(side.backend, (names, side.backend.keys(*names)))
        hold = chosen._hold_of(side, plan, token=asking.token)
        asking.lease.leave(asking)
        await hold.lease.have(side.driver, won, hold, side.where)
        return hold, granted


async def _take(
    driver: Driver, asking: Hold, groups: Sequence[Sequence[int]], most: int, since: float
) -> tuple[Won | None, list[int]]:
    sent, request = 0.0, asking.lease.request

    async def take(link: Link) -> tuple[Granted | None, list[int]]:
        nonlocal sent
        first, sent = not sent, monotonic()
        return await store.take(link, request, groups, most, read_ago=sent - since, first=first)

    try:
        (granted, found), _ = await persist(driver, take, monotonic() + _PATIENCE, ends=at_last())
    except BaseException:
        if sent:
            await acquire.give_up(driver, request)
        asking.lease.leave(asking)
        raise
    if granted is None:
        return None, found
    return Won(granted.fencing_token, sent + request.lease_ms / 1000, []), found


def fitting(groups: Sequence[Sequence[Row]]) -> int:
    """Return how many groups, from the first on, fit into one hold; at least 1."""
    names: set[str] = set()
    for number, group in enumerate(groups):
        names.update(name for row in group for name in row)
        if number and len(names) > MAX_SET:
            return number
    return len(groups)


def models_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the models of which rows are locked: those that need the intent."""
    return tuple(dict.fromkeys(row.model for row in rows if row.name != row.model))


def escalated(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows, or models in the place of the most numerous ones.

    That is so if one hold cannot have so many locks.
    """
    while len({*models_of(rows), *(row.name for row in rows)}) > MAX_SET:
        ((most, _),) = Counter(row.model for row in rows).most_common(1)
        whole = Row(most, most)
        rows = [whole, *(row for row in rows if row.model != most)]
    return rows


def rows_in(groups: Iterable[Sequence[Row]]) -> list[Row]:
    """Return the rows of all groups, each once."""
    return list(dict.fromkeys(row for group in groups for row in group))
