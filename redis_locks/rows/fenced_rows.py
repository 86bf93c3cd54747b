"""Querysets whose rows are read and written under a hold.

Apart from `fencing`, whose model needs Django's apps.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, models, transaction

from redis_locks.exceptions import StaleHold
from redis_locks.locks.hold import Hold
from redis_locks.rows.sources import primary_of

M = TypeVar("M", bound=models.Model)

FENCE = "fence"


def fencing_token_of(hold: object) -> int:
    """Return the fencing token of `hold`. Raises TypeError, or StaleHold if the hold is known to be lost."""
    if isinstance(hold, Hold):
        if hold.is_lost:
            msg = (
                f"Lock {hold.name!r}, held with fencing token {hold.fencing_token}, was lost: nothing "
                "was saved. Acquire the lock again and start from what the row says now"
            )
            raise StaleHold(msg)
        return hold.fencing_token
    if isinstance(hold, int) and not isinstance(hold, bool) and hold > 0:
        return hold
    msg = f"hold must be a Hold or the fencing token of one (a positive int), not {hold!r}"
    raise TypeError(msg)


class FencedRows(Generic[M]):
    """The rows of a queryset, to be read and written under one hold; from `FencedQuerySet.fenced`."""

    def __init__(self, rows: models.QuerySet[M], hold: Hold | int) -> None:
        fencing_token_of(hold)  # raises now what is wrong with it
        self._rows = rows
        self._hold = hold

    def get(self, *args: Any, **kwargs: Any) -> M:
        """Return the row, as Django's ``get`` does, after giving it the fencing token.

        From then on no older hold can write the row, so what you read stays true until this hold
        writes. In a transaction, the database locks the row until the end, as for any UPDATE.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote the row.
            DoesNotExist: No row matches.
            MultipleObjectsReturned: More than one row matches; none is touched.
        """
        found = FencedRows(self._for_write().filter(*args, **kwargs), self._hold)
        with transaction.atomic(using=found._rows.db):
            found.update()
            return found._rows.get()

    def update(self, **values: Any) -> int:
        """Update all rows, or none; return how many, as Django's ``update`` does.

        Without values it only writes the fencing token: do so before you read several rows.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is updated.
        """
        rows, token = self._for_write(), fencing_token_of(self._hold)
        with transaction.atomic(using=rows.db):
            if _is_one_table(rows):
                updated = rows.filter(fence__lte=token).update(**values, fence=token)
                _refuse_stale(rows, token)
                return updated
            updated = _raise_fence(rows, token)
            _refuse_stale(rows, token)
            return rows.filter(fence=token).update(**values) if values else updated

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete all rows, or none; return how many of each model, as Django's ``delete`` does.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is deleted.
        """
        rows = self._for_write()
        with transaction.atomic(using=rows.db):
            self.update()
            return rows.delete()

    async def aget(self, *args: Any, **kwargs: Any) -> M:
        """Return the row; see `get`."""
        return await sync_to_async(self.get)(*args, **kwargs)

    async def aupdate(self, **values: Any) -> int:
        """Update all rows, or none; see `update`."""
        return await sync_to_async(self.update)(**values)

    async def adelete(self) -> tuple[int, dict[str, int]]:
        """Delete all rows, or none; see `delete`."""
        return await sync_to_async(self.delete)()

    def _for_write(self) -> models.QuerySet[M]:
        return self._rows.using(primary_of(self._rows))


def owner_of(model: type[models.Model]) -> type[models.Model]:
    """Return the model whose table has the fence: `model` or a parent."""
    owner: type[models.Model] = model._meta.get_field(FENCE).model
    return owner


def _is_one_table(rows: models.QuerySet[Any]) -> bool:
    """Whether Django's UPDATE contains the conditions itself, instead of running a query before."""
    return owner_of(rows.model) is rows.model and len(rows.query.alias_map) <= 1


def _raise_fence(rows: models.QuerySet[Any], token: int) -> int:
    """Write the fencing token, with the condition in the UPDATE itself, whatever the rows are joined with."""
    owner = owner_of(rows.model)
    key = "pk" if owner is rows.model else owner._meta.pk.name
    keys: Any = rows.order_by().values_list(key, flat=True)
    if not connections[rows.db].features.update_can_self_select:  # MySQL
        keys = list(keys)
    every = owner._base_manager.using(rows.db)
    return every.filter(pk__in=keys, fence__lte=token).update(fence=token)


def _refuse_stale(rows: models.QuerySet[Any], token: int) -> None:
    """Raise StaleHold for a row that has a later fence.

    Call it after the update, so that it also finds a row that a later hold touched meanwhile.
    """
    stale = rows.filter(fence__gt=token).values_list("pk", FENCE).first()
    if stale is not None:
        pk, fence = stale
        raise stale_hold(rows.model, pk, fence, token)


class FencedQuerySet(models.QuerySet[M]):
    """A queryset that can be read and written under a hold."""

    def fenced(self, hold: Hold | int) -> FencedRows[M]:
        """Return these rows, to be read and updated under `hold`.

        Args:
            hold: A hold, or the fencing token of a hold that another process has (a task's argument).

        Raises:
            TypeError: `hold` is neither.
            StaleHold: The hold is lost.
        """
        return FencedRows(self, hold)


def stale_hold(model: type[models.Model], pk: object, written: int | None, token: int) -> StaleHold:
    """Return the error for a row that has the later fencing token `written`; None: the row is gone."""
    label = model._meta.label
    what = "is gone" if written is None else f"was read or written with fencing token {written}"
    return StaleHold(
        f"{label} {pk!r} {what}, after the hold with fencing token {token} was lost: "
        "nothing was saved. Acquire the lock again and start from what the row says now"
    )
