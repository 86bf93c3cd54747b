"""Under which hold a row is written.

The one that is given, that of a `fenced` block, or that of the row's own lock.

It is never the nearest hold, whatever that locks: its greater fencing token would refuse the row's
own holder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db.models import Model

from redis_locks.conf.name_function import server_name
from redis_locks.exceptions import StaleHold
from redis_locks.locks.hold import Hold
from redis_locks.locks.own_leases import own_lease
from redis_locks.rows.names import row_of
from redis_locks.values.name_templates import parse

FENCE: Final = "fence"
"""The field that has the greatest fencing token."""

_by_hand: ContextVar[Hold | int | None] = ContextVar("redis_locks_fenced", default=None)


@contextmanager
def fenced(hold: Hold | int) -> Iterator[None]:
    """Fence all writes of `FencedModel` instances and querysets in the block by this hold.

    That is for rows whose lock the model does not declare by `fenced_by`. All these rows must be
    under the lock of the hold. It works in async code as well.

    Args:
        hold: A hold, or the fencing token of a hold that another process has.

    Raises:
        TypeError: `hold` is neither.
        StaleHold: The hold is lost, now or at a write.
    """
    fencing_token_of(hold)
    before = _by_hand.set(hold)
    try:
        yield
    finally:
        _by_hand.reset(before)


def fenced_by_hand() -> Hold | int | None:
    """Return the hold of the `fenced` block around the caller."""
    return _by_hand.get()


def fencing_token_of(hold: object) -> int:
    """Return the fencing token of `hold`.

    Raises TypeError, or StaleHold if the hold is known to be lost.
    """
    if isinstance(hold, Hold):
        if hold.is_lost:
            raise _lost(hold.name, hold.fencing_token)
        return hold.fencing_token
    if isinstance(hold, int) and not isinstance(hold, bool) and hold > 0:
        return hold
    msg = f"hold must be a Hold or the fencing token of one (a positive int), not {hold!r}"
    raise TypeError(msg)


def lock_name_of(instance: Model) -> str | None:
    """Return the name of the lock that an instance's model declares by `fenced_by`.

    None if there is none yet.
    """
    template = getattr(instance, "fenced_by", None)
    if template is None:
        return None
    parsed = parse(template)
    if instance._state.adding and any(
        getattr(instance, field.root, None) is None for field in parsed.fields
    ):
        return None  # the row has no key yet, so nobody can have its lock
    return parsed.render(lambda root: getattr(instance, root))


def token_around(instance: Model, database: str) -> int | None:
    """Return the fencing token under which code around the caller has locked a row.

    None: it has not.

    That is the hold of a `fenced` block, of the lock that the model declares, or of the row, in
    this order.

    Raises:
        StaleHold: The hold is lost.
    """
    by_hand = fenced_by_hand()
    if by_hand is not None:
        return fencing_token_of(by_hand)
    declared = lock_name_of(instance)
    lease = own_lease([server_name(declared)]) if declared is not None else None
    if lease is None and instance.pk is not None:
        lease = own_lease(_row_locks(instance, database))
    if lease is None:
        return None
    if not lease.is_held:
        raise _lost(lease.name, lease.fencing_token)
    return lease.fencing_token


def _row_locks(instance: Model, database: str) -> set[str]:
    """Return the names of the locks of a row, and of its model.

    The parent that has the fence counts, too.
    """
    names: set[str] = set()
    owner: Any = instance._meta.get_field(FENCE).model
    for model in {type(instance), owner}:
        pk = getattr(instance, model._meta.pk.attname) if model is owner else instance.pk
        if pk is not None:
            names.update(row_of(model, database, pk))
    return names


def _lost(name: str, token: int) -> StaleHold:
    return StaleHold(
        f"Lock {name!r}, held with fencing token {token}, was lost: nothing "
        "was saved. Acquire the lock again and start from what the row says now"
    )
