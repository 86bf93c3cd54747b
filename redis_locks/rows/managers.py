"""Managers of models whose rows are locked or fenced."""

# What type checkers read needs no docstrings.
# ruff: noqa: D102

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db.models import Manager, Model, QuerySet

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.locks.hold import Hold
from redis_locks.rows.fenced_rows import FencedQuerySet, FencedRows
from redis_locks.rows.querysets import RedisLockQuerySet
from redis_locks.values.modes import RowMode

if TYPE_CHECKING:
    import typing_extensions  # which every type checker knows

    M = TypeVar("M", bound=Model)
    Owner = TypeVar("Owner", bound=Model)
    Rows_co = typing_extensions.TypeVar(
        "Rows_co", bound=QuerySet[Any], covariant=True, default="FencedQuerySet[M]"
    )

    class FencedManager(Manager[M], Generic[M, Rows_co]):
        """What stands below, for type checkers.

        In a class, ``objects = FencedManager()`` is of its rows.
        """

        def __get__(  # type: ignore[override]  # the owner's, not that of the assignment
            self, instance: Any, cls: type[Owner] | None = None
        ) -> FencedManager[Owner]: ...
        def fenced(self, hold: Hold | int) -> FencedRows[M]: ...
        def get_queryset(self) -> Rows_co: ...
        def all(self) -> Rows_co: ...
        def none(self) -> Rows_co: ...
        def filter(self, *args: Any, **kwargs: Any) -> Rows_co: ...
        def exclude(self, *args: Any, **kwargs: Any) -> Rows_co: ...
        def complex_filter(self, filter_obj: Any) -> Rows_co: ...
        def annotate(self, *args: Any, **kwargs: Any) -> Rows_co: ...
        def alias(self, *args: Any, **kwargs: Any) -> Rows_co: ...
        def order_by(self, *field_names: Any) -> Rows_co: ...
        def distinct(self, *field_names: str) -> Rows_co: ...
        def reverse(self) -> Rows_co: ...
        def select_related(self, *fields: Any) -> Rows_co: ...
        def prefetch_related(self, *lookups: Any) -> Rows_co: ...
        def defer(self, *fields: Any) -> Rows_co: ...
        def only(self, *fields: str) -> Rows_co: ...
        def using(self, alias: str | None) -> Rows_co: ...

    class RedisLockManager(FencedManager[M, RedisLockQuerySet[M]]):
        """What stands below, for type checkers."""

        def __get__(
            self, instance: Any, cls: type[Owner] | None = None
        ) -> RedisLockManager[Owner]: ...
        def select_for_lock(
            self,
            mode: RowMode = "exclusive",
            *,
            nowait: bool = False,
            skip_locked: bool = False,
            of: tuple[str, ...] | list[str] = (),
            wait: float | Unset | None = UNSET,
            using: str | None = None,
        ) -> RedisLockQuerySet[M]: ...

else:

    class FencedManager(Manager.from_queryset(FencedQuerySet)):
        """A manager whose rows can be read and written under a hold.

        See `FencedQuerySet.fenced`.
        """

    class RedisLockManager(FencedManager.from_queryset(RedisLockQuerySet)):
        """A manager with `RedisLockQuerySet.select_for_lock`, and with `fenced`."""
