"""`FencedModel`: rows that refuse a write under a hold older than the last one that wrote.

A hold can end without its holder noticing in time: a process that was stopped past its lease
goes on where it was. Redis cannot stop its late write, but the row can: it keeps the fencing
token of the last hold that wrote, and a write with a smaller one matches no row.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from asgiref.sync import sync_to_async
from django.db import models, transaction

from redis_locks.exceptions import StaleHold
from redis_locks.holds import Hold

M = TypeVar("M", bound=models.Model)

FENCE = "fence"


def _fencing_token(hold: object) -> int:
    if isinstance(hold, Hold):
        return hold.fencing_token
    if isinstance(hold, int) and not isinstance(hold, bool) and hold > 0:
        return hold
    msg = f"hold must be a Hold or the fencing token of one (a positive int), not {hold!r}"
    raise TypeError(msg)


class FencedRows(Generic[M]):
    """The rows of a queryset, to be written under one hold; from `FencedQuerySet.fenced`."""

    def __init__(self, rows: models.QuerySet[M], hold: Hold | int) -> None:
        self._rows = rows
        self._token = _fencing_token(hold)

    def update(self, **values: Any) -> int:
        """Update all rows, or none; return how many, as Django's ``update`` does.

        Raises:
            StaleHold: A later hold wrote one of the rows. Nothing is updated.
        """
        rows = self._rows.all()
        rows._for_write = True  # type: ignore[attr-defined]  # noqa: SLF001 - as update() does, so that .db is the primary
        with transaction.atomic(using=rows.db):
            updated = rows.filter(fence__lte=self._token).update(**values, fence=self._token)
            # Only after the update: a row that a later hold writes meanwhile is found as well.
            stale = rows.filter(fence__gt=self._token).values_list("pk", FENCE).first()
            if stale is not None:
                pk, fence = stale
                raise _stale(rows.model, pk, fence, self._token)
        return updated

    async def aupdate(self, **values: Any) -> int:
        """Update all rows, or none; see `update`."""
        return await sync_to_async(self.update)(**values)


class FencedQuerySet(models.QuerySet[M]):
    """A queryset that can be written under a hold."""

    def fenced(self, hold: Hold | int) -> FencedRows[M]:
        """Return these rows, to be updated under `hold`.

        Args:
            hold: A hold, or its fencing token if it was taken elsewhere (a task's argument).
        """
        return FencedRows(self, hold)


FencedManager = models.Manager.from_queryset(FencedQuerySet)


class FencedModel(models.Model):
    """A row that keeps the fencing token of the last hold that wrote it.

    ``save(hold=hold)`` and ``Model.objects.fenced(hold).update(...)`` raise `StaleHold` if a
    later hold of the lock has written the row. All writes of a row must be under the same
    lock, for the fencing tokens of different locks are not in one order. A write without a
    hold is not checked and leaves the fence as it is.
    """

    fence = models.BigIntegerField(default=0, editable=False)
    """The greatest fencing token that wrote this row."""

    objects = FencedManager()

    class Meta:
        abstract = True

    def save(self, *args: Any, hold: Hold | int | None = None, **kwargs: Any) -> None:
        """Save, under `hold` if one is given (or its fencing token).

        Raises:
            StaleHold: A later hold wrote or deleted the row. Nothing is saved.
        """
        if hold is None:
            super().save(*args, **kwargs)
            return
        before = self.fence
        self.fence = self._fencing_token = _fencing_token(hold)
        fields = kwargs.get("update_fields")
        if fields:
            kwargs["update_fields"] = {*fields, FENCE}
        try:
            super().save(*args, **kwargs)
        except BaseException:
            self.fence = before
            raise
        finally:
            del self._fencing_token

    async def asave(self, *args: Any, hold: Hold | int | None = None, **kwargs: Any) -> None:
        """Save; see `save`."""
        await sync_to_async(self.save)(*args, hold=hold, **kwargs)

    def _do_update(
        self, base_qs: Any, using: Any, pk_val: Any, values: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Match no row that a later hold wrote. The condition stands in the UPDATE itself."""
        token: int | None = getattr(self, "_fencing_token", None)
        if base_qs.model._meta.get_field(FENCE).model is not base_qs.model:  # noqa: SLF001 - public by Django's docs
            # The table of a child: its parent's, which has the fence, was updated before.
            return super()._do_update(base_qs, using, pk_val, values, *args, **kwargs)
        if token is None:
            values = [value for value in values if value[0].name != FENCE]
            return super()._do_update(base_qs, using, pk_val, values, *args, **kwargs)
        fresh = base_qs.filter(fence__lte=token)
        updated = super()._do_update(fresh, using, pk_val, values, *args, **kwargs)
        if not updated:
            written = base_qs.filter(pk=pk_val).values_list(FENCE, flat=True).first()
            if written is not None or not self._state.adding:
                # Inserted again, a row that a later hold deleted would be back.
                raise _stale(base_qs.model, pk_val, written, token)
        return updated


def _stale(model: type[models.Model], pk: object, written: int | None, token: int) -> StaleHold:
    label = model._meta.label  # noqa: SLF001 - as above
    what = "is gone" if written is None else f"was written with fencing token {written}"
    return StaleHold(
        f"{label} {pk!r} {what}, after the hold with fencing token {token} was lost: "
        "nothing was saved. Acquire the lock again and start from what the row says now"
    )
