"""`FencedModel`: rows that refuse a write under a hold older than the last one that touched them.

A hold can end without its holder noticing in time: a process that was stopped past its lease
goes on where it was. Redis cannot stop its late write, but the row can. It keeps the fencing token
of the last hold that touched it. A write with a smaller one matches no row. To read under a hold is
to touch: a late write between its read and its write would be overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from asgiref.sync import sync_to_async
from django.core import checks
from django.db import models, router, transaction

from redis_locks.locks.hold import Hold
from redis_locks.rows.fenced_rows import (
    FencedQuerySet,
    FencedRows,
    owner_of,
    require_hold,
    stale_hold,
)
from redis_locks.rows.fences import FENCE, fenced, fencing_token_of, lock_name_of, token_around
from redis_locks.rows.managers import FencedManager
from redis_locks.values.name_templates import parse

__all__ = ["FenceField", "FencedManager", "FencedModel", "FencedQuerySet", "FencedRows", "fenced"]

BAD_FIELD = "redis_locks.E017"


if TYPE_CHECKING:
    _Column = models.BigIntegerField[int, int]
else:
    _Column = models.BigIntegerField


_SAVE_ARGUMENTS = ("force_insert", "force_update", "using", "update_fields")
"""The arguments of ``Model.save`` that may come without a name, in order, until Django 6.1."""


class FenceField(_Column):
    """The column that keeps a fencing token.

    Forms and serializers leave it out, and migrations see a plain one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"default": 0, **options, "editable": False, "serialize": False})

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Return how a migration writes the column, which needs none of this package."""
        name, _, args, options = super().deconstruct()
        del options["serialize"]
        return name, "django.db.models.BigIntegerField", args, options


class FencedModel(models.Model):
    """A row that keeps the fencing token of the last hold that touched it.

    A write is fenced by itself where code around it has the row's lock: the one that `fenced_by`
    declares, or that of `lock_rows`. So ``instance.save()``, forms, serializers and generic views
    need not know of it.

    Read with ``Model.objects.fenced(hold).get(...)``: that gives the row the fencing token first.
    Write with ``save(hold=hold)``, ``delete(hold=hold)`` or
    ``Model.objects.fenced(hold).update(...)``. All four raise `StaleHold` if the hold is lost, or a
    later hold of the lock has touched the row in one of these ways. After any other read, the late
    write of an older hold is accepted until the first write, which then overwrites it. All writes
    of a row must be under the same lock, for the fencing tokens of different locks are not in one
    order. A write without a hold is not checked and leaves the fence as it is. With ``fenced =
    "required"`` in the class body, it raises `UnfencedWrite`, unless it only inserts new rows. Raw
    SQL, cascades, and Django's deserializer are not seen.
    """

    fenced: ClassVar[Literal["optional", "required"]] = "optional"
    """"required": rows are changed and deleted under a hold only. "optional": without one as well.
    """

    fenced_by: ClassVar[str | None] = None
    """The name of the lock that a row is under, as a template over its attributes:
    ``"order:{pk}"``. None: none is declared.
    """

    _fencing_token: int | None = None
    """That of the hold under which it is being saved."""

    fence = FenceField()
    """The greatest fencing token of a hold that touched this row."""

    objects = FencedManager()

    class Meta:
        abstract = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Check `fenced` and `fenced_by`. Raises ValueError or TypeError."""
        super().__init_subclass__(**options)
        if cls.fenced not in ("optional", "required"):
            msg = f'{cls.__qualname__}.fenced must be "optional" or "required", not {cls.fenced!r}'
            raise ValueError(msg)
        if cls.fenced_by is not None:
            if not isinstance(cls.fenced_by, str):
                raise TypeError(
                    f"{cls.__qualname__}.fenced_by must be a template such as 'order:{{pk}}', not "
                    f"{cls.fenced_by!r}"
                )
            try:
                parse(cls.fenced_by)
            except ValueError as error:
                raise ValueError(
                    f"{cls.__qualname__}.fenced_by must be a template such as 'order:{{pk}}': "
                    f"{error}"
                ) from error

    def save(self, *args: Any, hold: Hold | int | None = None, **kwargs: Any) -> None:
        """Save under a hold.

        That is `hold`, if one is given, or its fencing token. Else it is that of the row's lock
        around the caller.

        Raises:
            StaleHold: The hold is lost (found without asking anybody), or a later hold read, wrote
                or deleted the row. Nothing is saved.
            UnfencedWrite: There is no hold, the model requires one, and the row is not new.
            IntegrityError: There is no hold, the model requires one, and a new instance has the
                primary key of a row that is there.
            TypeError: There is a hold, and another argument has no name.
        """
        if hold is None:
            using = kwargs.get("using") or next(iter(args[2:3]), None)
            token = token_around(self, using or router.db_for_write(type(self), instance=self))
        elif args:
            raise TypeError(f"with hold=, save() takes its other arguments by name, not {args!r}")
        else:
            token = fencing_token_of(hold)
        if token is None:
            if self.fenced == "required":
                self._only_insert(args, kwargs)
            super().save(*args, **kwargs)
            return
        kwargs.update(zip(_SAVE_ARGUMENTS, args, strict=False))
        before, outer = self.fence, self._fencing_token  # a handler of post_save may save again
        self.fence = self._fencing_token = token
        fields = kwargs.get("update_fields")
        if fields:
            kwargs["update_fields"] = {*fields, FENCE}
        try:
            super().save(**kwargs)
        except BaseException:
            self.fence = before
            raise
        finally:
            self._fencing_token = outer

    def _only_insert(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if not self._state.adding or args or options.get("force_update"):
            require_hold(type(self), "save()", "save(hold=hold)", lock_name_of(self))
        # An instance with the primary key of a row would overwrite it.
        options["force_insert"] = (models.Model,)

    async def asave(self, *args: Any, hold: Hold | int | None = None, **kwargs: Any) -> None:
        """Save; see `save`."""
        await sync_to_async(self.save)(*args, hold=hold, **kwargs)

    def delete(
        self,
        using: str | None = None,
        keep_parents: bool = False,  # noqa: FBT001, FBT002 - Django's
        *,
        hold: Hold | int | None = None,
    ) -> tuple[int, dict[str, int]]:
        """Delete under a hold.

        That is `hold`, if one is given, or its fencing token. Else it is that of the row's lock
        around the caller.

        Raises:
            StaleHold: The hold is lost, or a later hold read or wrote the row. Nothing is deleted.
            UnfencedWrite: There is no hold, and the model requires one.
        """
        alias = using or router.db_for_write(type(self), instance=self)
        hold = token_around(self, alias) if hold is None else hold
        if hold is None:
            require_hold(type(self), "delete()", "delete(hold=hold)", lock_name_of(self))
            return super().delete(using, keep_parents)
        rows = type(self)._base_manager.using(alias).filter(pk=self.pk)
        with transaction.atomic(using=alias):
            # The row stays locked in the database, so no later hold touches it before it is gone.
            FencedRows(rows, hold).update()
            return super().delete(alias, keep_parents)

    async def adelete(
        self,
        using: str | None = None,
        keep_parents: bool = False,  # noqa: FBT001, FBT002 - Django's
        *,
        hold: Hold | int | None = None,
    ) -> tuple[int, dict[str, int]]:
        """Delete; see `delete`."""
        return await sync_to_async(self.delete)(using, keep_parents, hold=hold)

    # As Django's own: no template calls them.
    for _method in (save, asave, delete, adelete):
        _method.alters_data = True  # type: ignore[union-attr]
    del _method

    @classmethod
    def check(cls, **options: Any) -> list[checks.CheckMessage]:
        """Return what Django's checks find, and our error for a wrong `fenced_by`.

        It names a field that the model has not.
        """
        messages: list[checks.CheckMessage] = super().check(**options)
        roots = [field.root for field in parse(cls.fenced_by).fields] if cls.fenced_by else []
        return messages + [
            checks.Error(
                f"fenced_by {cls.fenced_by!r} has {{{root}}}, and the model has no such attribute.",
                hint="Write a field of the model, such as {pk}.",
                obj=cls,
                id=BAD_FIELD,
            )
            for root in roots
            if not hasattr(cls, root)
        ]

    def _do_update(
        self, base_qs: Any, using: Any, pk_val: Any, values: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Match no row that a later hold touched. The condition stands in the UPDATE itself."""
        token = self._fencing_token
        if base_qs.model is not owner_of(type(self)):
            # The table of a parent or child; the one with the fence refuses for all, in one
            # transaction.
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
                raise stale_hold(base_qs.model, pk_val, written, token)
        return updated
