"""Querysets whose rows are read and written under a hold.

Apart from `fencing`, whose model needs Django's apps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import reduce, wraps
from operator import or_
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, connections, models, transaction

from redis_locks.exceptions import StaleHold, UnfencedWrite
from redis_locks.locks.hold import Hold
from redis_locks.rows.fences import FENCE, fenced_by_hand, fencing_token_of
from redis_locks.rows.sources import primary_of

M = TypeVar("M", bound=models.Model)
P = ParamSpec("P")
T = TypeVar("T")

BATCH = 500
"""How many rows one query of a bulk write names."""


def _awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the twin of a method for async code."""

    @wraps(method)
    async def twin(rows: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await sync_to_async(method)(rows, *args, **kwargs)

    return twin


class FencedRows(Generic[M]):
    """The rows of a queryset, to be read and written under one hold.

    From `FencedQuerySet.fenced`.
    """

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
        rows = FencedRows(self._for_write().filter(*args, **kwargs), self._hold)
        with transaction.atomic(using=rows._rows.db):
            rows.update()
            try:
                return _of_this_hold(rows._rows, self._hold).get()
            except ObjectDoesNotExist:
                _refuse_stale(rows._rows, fencing_token_of(self._hold))
                raise

    def update(self, /, **values: Any) -> int:
        """Update all rows, or none; return how many, as Django's ``update`` does.

        Without values it only writes the fencing token: do so before you read several rows.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is
                updated.
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
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is
                deleted.
        """
        rows = self._for_write()
        with transaction.atomic(using=rows.db):
            self.update()
            return _of_this_hold(rows, self._hold).delete()

    def create(self, /, **values: Any) -> M:
        """Return a new row, saved with the fencing token. Raises StaleHold if the hold is lost."""
        rows = self._for_write()
        token = fencing_token_of(self._hold)
        return rows.create(**values, **{FENCE: token})

    def bulk_update(
        self, objs: Iterable[M], fields: Iterable[str], batch_size: int | None = None
    ) -> int:
        """Update these fields of the rows, or of none.

        Return how many matched, as Django's ``bulk_update`` does.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is
                updated.
        """
        objs, fields = list(objs), _without_fence(fields)
        rows, token = self._for_write(), fencing_token_of(self._hold)
        with transaction.atomic(using=rows.db):
            # The rows stay locked in the database, so no later hold touches them before they are
            # written.
            for some in _batches([each.pk for each in objs]):
                FencedRows(rows.filter(pk__in=some), self._hold).update()
            updated = _of_this_hold(rows, self._hold).bulk_update(objs, fields, batch_size)
        for each in objs:
            setattr(each, FENCE, token)
        return updated

    def bulk_create(
        self,
        objs: Iterable[M],
        batch_size: int | None = None,
        *,
        ignore_conflicts: bool = False,
        update_conflicts: bool = False,
        update_fields: Collection[str] = (),
        unique_fields: Collection[str] = (),
    ) -> list[M]:
        """Insert the rows with the fencing token; return them, as Django's ``bulk_create`` does.

        With `update_conflicts`, the rows that are there already get the `update_fields`. That takes
        four queries for a batch, as an INSERT that updates cannot compare fencing tokens. The
        instances get their primary keys. If several have the same unique fields, the last one's
        values stay.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote one of the rows. Nothing is
                written.
            IntegrityError: A row is in conflict by other columns than the `unique_fields`.
            ValueError: `update_conflicts` lacks the other two, or a unique field of a row is None.
        """
        objs, rows, token = list(objs), self._for_write(), fencing_token_of(self._hold)
        for each in objs:
            setattr(each, FENCE, token)
        if not update_conflicts:
            return rows.bulk_create(objs, batch_size, ignore_conflicts=ignore_conflicts)
        if ignore_conflicts or not (update_fields and unique_fields):
            msg = "update_conflicts needs update_fields and unique_fields, and no ignore_conflicts"
            raise ValueError(msg)
        fields = _without_fence(update_fields)
        unique = [_attname(rows.model, field) for field in unique_fields]
        with transaction.atomic(using=rows.db):
            # A row that a later hold inserts meanwhile is skipped here, and refused there.
            rows.bulk_create(objs, batch_size, ignore_conflicts=True)
            for some in _batches(objs):
                _find(rows, some, unique)
                last = {each.pk: each for each in some}  # of several for one row the last counts
                FencedRows(rows, self._hold).bulk_update(last.values(), fields, batch_size)
        return objs

    acreate = _awaited(create)
    abulk_update = _awaited(bulk_update)
    abulk_create = _awaited(bulk_create)
    aget = _awaited(get)
    aupdate = _awaited(update)
    adelete = _awaited(delete)

    def _for_write(self) -> models.QuerySet[M]:
        rows = self._rows.using(primary_of(self._rows))
        return rows.under_hold() if isinstance(rows, FencedQuerySet) else rows


def _batches(things: Sequence[Any]) -> Iterable[list[Any]]:
    return (list(things[start : start + BATCH]) for start in range(0, len(things), BATCH))


def _without_fence(fields: Iterable[str]) -> list[str]:
    names = list(fields)
    if FENCE in names:
        raise ValueError(f"{FENCE} must not be one of the fields: the hold writes it")
    return names


def _attname(model: type[models.Model], field: str) -> str:
    """Return the attribute that has a field's value."""
    column: Any = model._meta.pk if field == "pk" else model._meta.get_field(field)
    return str(column.attname)


def _find(rows: models.QuerySet[Any], objs: Sequence[Any], unique: Sequence[str]) -> None:
    """Give the instances the primary keys of their rows, which some unique fields identify."""
    wanted = [tuple(getattr(each, name) for name in unique) for each in objs]
    if any(None in key for key in wanted):
        msg = f"unique_fields must have values, so None cannot be one of {', '.join(unique)}"
        raise ValueError(msg)
    same = (models.Q(**dict(zip(unique, key, strict=True))) for key in wanted)
    every = rows.model._base_manager.using(rows.db).filter(reduce(or_, same))
    # As the database compares them: it may have another type, such as a text for a number.
    to_python = [rows.model._meta.get_field(name).to_python for name in unique]
    pks = {tuple(key): pk for pk, *key in every.values_list("pk", *unique)}
    for each, key in zip(objs, wanted, strict=True):
        pk = pks.get(tuple(convert(value) for convert, value in zip(to_python, key, strict=True)))
        if pk is None:
            raise IntegrityError(
                f"{rows.model._meta.label} with {', '.join(unique)} = {key!r} was not inserted, "
                "and there is no such row: it is in conflict with another row by other columns"
            )
        each.pk = pk
        each._state.adding, each._state.db = False, rows.db


def owner_of(model: type[models.Model]) -> type[models.Model]:
    """Return the model whose table has the fence: `model` or a parent."""
    owner: type[models.Model] = model._meta.get_field(FENCE).model
    return owner


def _is_one_table(rows: models.QuerySet[Any]) -> bool:
    """Whether Django's UPDATE contains the conditions itself, instead of running a query before."""
    return owner_of(rows.model) is rows.model and len(rows.query.alias_map) <= 1


def _raise_fence(rows: models.QuerySet[Any], token: int) -> int:
    """Write the fencing token, with the condition in the UPDATE itself.

    Whatever the rows are joined with.
    """
    owner = owner_of(rows.model)
    key = "pk" if owner is rows.model else owner._meta.pk.name
    keys: Any = rows.order_by().values_list(key, flat=True)
    read_alone = isinstance(rows, FencedQuerySet) and rows.is_read_alone
    if read_alone or not connections[rows.db].features.update_can_self_select:  # MySQL
        keys = list(keys)
    every = owner._base_manager.using(rows.db)
    return every.filter(pk__in=keys, fence__lte=token).update(fence=token)


def _of_this_hold(rows: models.QuerySet[M], hold: Hold | int) -> models.QuerySet[M]:
    """Return those of the rows that have the fencing token.

    A later hold may make further rows match meanwhile.
    """
    return rows.filter(fence=fencing_token_of(hold))


def _refuse_stale(rows: models.QuerySet[Any], token: int) -> None:
    """Raise StaleHold for a row that has a later fence.

    Call it after the update, so that it also finds a row that a later hold touched meanwhile.
    """
    stale = rows.filter(fence__gt=token).values_list("pk", FENCE).first()
    if stale is not None:
        pk, fence = stale
        raise stale_hold(rows.model, pk, fence, token)


def require_hold(
    model: type[models.Model], what: str, instead: str, lock: str | None = None
) -> None:
    """Raise UnfencedWrite if rows of the model are not to be changed without a hold.

    Args:
        model: The model.
        what: What would change rows.
        instead: How to give it a hold.
        lock: The name of the lock that the row is under; None if that is not known.
    """
    if getattr(model, "fenced", None) == "required":
        takes = "" if lock is None else f"take lock {lock!r} around it, or "
        raise UnfencedWrite(
            f'{model._meta.label} has fenced = "required", so {what} needs a hold: {takes}write '
            f"{instead}. Nothing was written"
        )


def is_fenced(model: type[models.Model]) -> bool:
    """Whether rows of the model have a fence."""
    return hasattr(model, "fenced")


class FencedQuerySet(models.QuerySet[M]):
    """A queryset that can be read and written under a hold.

    If its model has ``fenced = "required"``, what changes rows without one raises `UnfencedWrite`.
    """

    _under_hold = False

    is_read_alone = False
    """Whether it cannot be a part of another query; see `RedisLockQuerySet`."""

    def under_hold(self) -> Self:
        """Return these rows, to be changed by what has compared fencing tokens."""
        rows: Self = self._chain()  # type: ignore[attr-defined]  # as select_for_update does
        rows._under_hold = True
        return rows

    under_hold.queryset_only = True  # type: ignore[attr-defined]  # no manager has it

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]  # private, but what every queryset with a state of its own overrides
        clone._under_hold = self._under_hold
        return clone

    def _fenced_by_hand(self, what: str, instead: str) -> FencedRows[M] | None:
        """Return the rows under the hold of a `fenced` block.

        None: outside, or if that has been done.
        """
        if self._under_hold or not is_fenced(self.model):
            return None
        hold = fenced_by_hand()
        if hold is not None:
            return FencedRows(self, hold)
        require_hold(self.model, what, f"fenced(hold).{instead}")
        return None

    def update(self, **values: Any) -> int:
        """Update the rows; see `fenced`."""
        rows = self._fenced_by_hand("update()", "update(...)")
        if rows is not None:
            return rows.update(**values)
        return super().update(**values)

    update.alters_data = True  # type: ignore[attr-defined]  # no template calls it

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows; see `fenced`."""
        rows = self._fenced_by_hand("delete()", "delete()")
        if rows is not None:
            return rows.delete()
        return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]  # as above
    delete.queryset_only = True  # type: ignore[attr-defined]  # as Django's

    def bulk_update(
        self, objs: Iterable[M], fields: Iterable[str], batch_size: int | None = None
    ) -> int:
        """Update these fields of the rows; see `fenced`."""
        rows = self._fenced_by_hand("bulk_update()", "bulk_update(...)")
        if rows is not None:
            return rows.bulk_update(objs, fields, batch_size)
        return super().bulk_update(objs, _without_fence(fields), batch_size)

    bulk_update.alters_data = True  # type: ignore[attr-defined]  # as above

    def bulk_create(
        self,
        objs: Iterable[M],
        batch_size: int | None = None,
        ignore_conflicts: bool = False,  # noqa: FBT001, FBT002 - Django's
        update_conflicts: bool = False,  # noqa: FBT001, FBT002 - Django's
        update_fields: Collection[str] | None = None,
        unique_fields: Collection[str] | None = None,
    ) -> list[M]:
        """Insert the rows; see `fenced`."""
        if update_conflicts:
            rows = self._fenced_by_hand("bulk_create(update_conflicts=True)", "bulk_create(...)")
            if rows is not None:
                return rows.bulk_create(
                    objs,
                    batch_size,
                    ignore_conflicts=ignore_conflicts,
                    update_conflicts=True,
                    update_fields=update_fields or (),
                    unique_fields=unique_fields or (),
                )
        return super().bulk_create(
            objs, batch_size, ignore_conflicts, update_conflicts, update_fields, unique_fields
        )

    bulk_create.alters_data = True  # type: ignore[attr-defined]  # as above

    def fenced(self, hold: Hold | int) -> FencedRows[M]:
        """Return these rows, to be read and updated under `hold`.

        Args:
            hold: A hold, or the fencing token of a hold that another process has (a task's
                argument).

        Raises:
            TypeError: `hold` is neither.
            StaleHold: The hold is lost.
        """
        return FencedRows(self, hold)


def stale_hold(model: type[models.Model], pk: object, written: int | None, token: int) -> StaleHold:
    """Return the error for a row that has the later fencing token `written`.

    None: the row is gone.
    """
    label = model._meta.label
    what = "is gone" if written is None else f"was read or written with fencing token {written}"
    return StaleHold(
        f"{label} {pk!r} {what}, after the hold with fencing token {token} was lost: "
        "nothing was saved. Acquire the lock again and start from what the row says now"
    )
