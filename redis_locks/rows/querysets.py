"""`RedisLockQuerySet`: `select_for_lock` in the place of ``select_for_update``."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from django.db.models import Model

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.locks.hold import Hold
from redis_locks.rows.blocks import checked_of, checked_wait, lock_rows
from redis_locks.rows.fenced_rows import FencedQuerySet, FencedRows, is_fenced
from redis_locks.rows.fences import fenced_by_hand
from redis_locks.rows.locked_rows import LockedRows
from redis_locks.rows.sources import among, is_null, needs_all
from redis_locks.values import modes
from redis_locks.values.arguments import optional_text
from redis_locks.values.modes import RowMode, row_mode

M = TypeVar("M", bound=Model)


class _Asked:
    """Whether any queryset that one `select_for_lock` led to was evaluated.

    It warns when all are dropped, and none was.
    """

    is_so = False

    def __init__(self, model: str) -> None:
        self._model = model

    def __del__(self) -> None:
        if not self.is_so:
            warnings.warn(
                f"{self._model}.objects.select_for_lock() by itself locks nothing: evaluate the "
                "queryset, as by rows = list(...), get() or update()",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    def refuse_sql(self, *_: object, **__: object) -> NoReturn:
        """Refuse a query whose rows are to be locked, in the place of ``get_compiler``.

        It would read them without a lock.
        """
        self.is_so = True
        raise NotImplementedError(_NOT_A_PART)

    def __deepcopy__(self, memo: object) -> Self:
        return self


_NOT_A_PART = (
    "select_for_lock() locks rows when its own queryset is read. As a part of another query, such "
    "as a subquery or a union, it would lock nothing. Lock first: "
    "rows = list(...select_for_lock()). Then write pk__in=[row.pk for row in rows]"
)


def _refuse_locked(*querysets: object) -> None:
    for each in querysets:
        if isinstance(each, RedisLockQuerySet):
            each.refuse_as_part()


def _refusing(method: str) -> Any:
    """Return Django's method, which raises NotImplementedError if one of its querysets locks."""
    of_django = getattr(FencedQuerySet, method)

    @wraps(of_django)
    def refusing(rows: Any, *others: Any, **options: Any) -> Any:
        _refuse_locked(rows, *others)
        return of_django(rows, *others, **options)

    return refusing


class RedisLockQuerySet(FencedQuerySet[M]):
    """A queryset whose rows can be locked when it is evaluated, as by ``select_for_update``.

    The rows of a `FencedModel` can be written under a hold: see `fenced`.
    """

    _lock_options: dict[str, Any] | None = None

    _asked: _Asked | None = None

    def select_for_lock(
        self,
        mode: RowMode = "exclusive",
        *,
        nowait: bool = False,
        skip_locked: bool = False,
        of: tuple[str, ...] | list[str] = (),
        wait: float | Unset | None = UNSET,
        using: str | None = None,
    ) -> Self:
        """Return a queryset that locks its rows when it is evaluated, until the transaction ends.

        The arguments are those of `lock_rows`. With `skip_locked` a slice is the limit: ``[:10]``
        locks ten free rows. The evaluation blocks for up to `wait` seconds. It raises what
        `lock_rows` raises, or TransactionManagementError outside a transaction. An instance that a
        join finds several times appears once. `update`, `delete`, `aggregate`, `count` and `exists`
        lock the rows first. What would read or write them without a lock, such as a subquery,
        raises NotImplementedError.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range, or excludes another one.
        """
        row_mode(mode)
        checked_wait(wait, nowait=nowait, skip_locked=skip_locked)
        checked_of(of)
        optional_text(using, "using")
        return self._locked_by(
            {
                "mode": mode,
                "nowait": nowait,
                "skip_locked": skip_locked,
                "of": of,
                "wait": wait,
                "using": using,
                "scope": "transaction",
            }
        )

    def _locked_by(self, options: dict[str, Any] | None) -> Self:
        rows: Self = self._chain()  # type: ignore[attr-defined]  # as select_for_update does
        rows._lock_options = options
        rows.is_read_alone = options is not None
        rows._asked = None
        vars(rows.query).pop("get_compiler", None)
        if options is not None:
            rows._asked = asked = _Asked(self.model.__name__)
            rows.query.get_compiler = asked.refuse_sql  # type: ignore[method-assign]  # clones keep it
        return rows

    def _lock_first(self, verb: str, least: RowMode = "key_share") -> tuple[Self, LockedRows[M]]:
        """Lock the rows, in `least` or the stronger mode that was chosen.

        Return a queryset of these rows, which locks nothing more, and the rows.
        """
        options = self._lock_options or {}
        self._note_asked()
        if self._fields is not None:  # type: ignore[attr-defined]  # what values() names
            raise NotImplementedError(
                f"{verb} after values() cannot lock rows. Leave values() out, or lock first: "
                f"rows = list(...select_for_lock()). Then call {verb} on filter(pk__in=[row.pk for "
                "row in rows])"
            )
        mode: RowMode = least if modes.covers(least, options["mode"]) else options["mode"]
        of = options["of"]
        if of and least != "key_share":
            of = ("self", *of)  # what is written is locked, whatever else is
        rows = self._locked_by(None).prefetch_related(None)
        with lock_rows(rows, **{**options, "mode": mode, "of": of}) as locked:
            pass  # the transaction keeps them
        rows.query.clear_limits()
        return rows.filter(among([row.pk for row in locked])) if locked else rows.none(), locked

    def _to_write(self, verb: str, least: RowMode) -> list[Self | FencedRows[M]]:
        """Lock the rows; return them as what can write them.

        Rows that have a fence come by the hold that has their locks.
        """
        rows, locked = self._lock_first(verb, least)
        if self._under_hold or not is_fenced(self.model) or fenced_by_hand() is not None:
            return [rows]
        by_hold: dict[Hold, list[Any]] = {}
        for row in locked:
            by_hold.setdefault(locked.hold_of(row), []).append(row.pk)
        return [FencedRows(rows.filter(among(pks)), hold) for hold, pks in by_hold.items()]

    def iterator(self, chunk_size: int | None = None) -> Iterator[Any]:
        """Iterate. If the rows are to be locked, it locks and reads all of them first."""
        if self._lock_options is not None:
            return iter(list(self))
        return super().iterator(chunk_size)

    async def aiterator(self, chunk_size: int = 2000) -> AsyncIterator[Any]:
        """Iterate; see `iterator`."""
        if self._lock_options is None:
            async for row in super().aiterator(chunk_size):
                yield row
        else:
            async for row in self:
                yield row

    def in_bulk(self, id_list: Any = None, **options: Any) -> dict[Any, M]:
        """Return rows by their keys, as Django's ``in_bulk`` does."""
        self._note_asked()  # also if there are no keys, and so nothing to lock
        return super().in_bulk(id_list, **options)

    def count(self) -> int:
        """Return how many rows there are.

        If they are to be locked, it locks and reads all of them.
        """
        return super().count() if self._lock_options is None else len(self)

    def exists(self) -> bool:
        """Whether there is a row. If rows are to be locked, it locks one."""
        if self._lock_options is None or self._result_cache is not None:
            return super().exists()
        # Rows that can only be locked as a whole cannot be sliced.
        return bool(self if needs_all(self.query) else self[:1])

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Aggregate. If the rows are to be locked, it locks all of them first."""
        rows = self if self._lock_options is None else self._lock_first("aggregate()")[0]
        return super(RedisLockQuerySet, rows).aggregate(*args, **kwargs)

    def explain(self, *, format: str | None = None, **options: Any) -> str:  # noqa: A002 - Django's
        """Explain the query, as Django's ``explain`` does.

        It locks nothing, as PostgreSQL's EXPLAIN.
        """
        self._note_asked()
        rows = self._locked_by(None)
        return super(RedisLockQuerySet, rows).explain(format=format, **options)

    def update(self, **values: Any) -> int:
        """Update the rows. If they are to be locked, it locks them first, in "no_key" at least."""
        # Django refuses a slice, before anything is locked.
        if self._lock_options is None or self.query.is_sliced:
            return super().update(**values)
        self._result_cache = None
        return sum(each.update(**values) for each in self._to_write("update()", "no_key"))

    update.alters_data = True  # type: ignore[attr-defined]  # no template calls it

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows. If they are to be locked, it locks them first, in "exclusive".

        Rows that the deletion of these deletes too, by a relation, are not locked.
        """
        if self._lock_options is None or self.query.is_sliced:
            return super().delete()
        total, deleted = 0, Counter[str]()
        for each in self._to_write("delete()", "exclusive"):
            some, by_label = each.delete()
            total += some
            deleted.update(by_label)
        self._result_cache = None
        return total, dict(deleted)

    delete.alters_data = True  # type: ignore[attr-defined]  # as above
    delete.queryset_only = True  # type: ignore[attr-defined]  # no manager has it

    def bulk_update(
        self, objs: Iterable[M], fields: Iterable[str], batch_size: int | None = None
    ) -> int:
        """Update these fields of the rows.

        If they are to be locked, it locks all of `objs` first.
        """
        objs = list(objs)
        # Django refuses instances that have no row.
        if self._lock_options is None or any(is_null(each.pk) for each in objs):
            return super().bulk_update(objs, fields, batch_size)
        rows = self.filter(among([each.pk for each in objs])) if objs else self.none()
        parts: list[Any] = RedisLockQuerySet._to_write(rows, "bulk_update()", "no_key")
        return sum(each.bulk_update(objs, fields, batch_size) for each in parts)

    bulk_update.alters_data = True  # type: ignore[attr-defined]  # as above

    def bulk_create(self, objs: Iterable[M], *args: Any, **kwargs: Any) -> list[M]:
        """Insert the rows, as Django's ``bulk_create`` does.

        Raises NotImplementedError if it would update locked ones.
        """
        if self._lock_options is not None and (
            kwargs.get("update_conflicts") or args[2:3] == (True,)
        ):
            self._note_asked()
            raise NotImplementedError(
                "bulk_create(update_conflicts=True) cannot lock the rows that it updates. Lock "
                "them first: list(...select_for_lock()). Then call bulk_create() without "
                "select_for_lock()"
            )
        return super().bulk_create(objs, *args, **kwargs)

    bulk_create.alters_data = True  # type: ignore[attr-defined]  # as above

    if not TYPE_CHECKING:  # for type checkers these are Django's
        union, intersection, difference, raw, resolve_expression, __and__, __or__, __xor__ = map(
            _refusing,
            (
                *("union", "intersection", "difference", "raw"),
                *("resolve_expression", "__and__", "__or__", "__xor__"),
            ),
        )

    def _combined_after(self, other: object) -> Any:
        # Python asks the subclass first, so Django's own queryset on the left is combined after
        # this.
        _refuse_locked(self, other)
        return NotImplemented

    __rand__ = __ror__ = __rxor__ = _combined_after

    def refuse_as_part(self) -> None:
        """Raise NotImplementedError if the rows are to be locked.

        Another query would read them without a lock.
        """
        if self._lock_options is not None:
            self._note_asked()
            raise NotImplementedError(_NOT_A_PART)

    refuse_as_part.queryset_only = True  # type: ignore[attr-defined]  # no manager has it

    def _note_asked(self) -> None:
        if self._asked is not None:
            self._asked.is_so = True

    def _clone(self) -> Self:
        clone: Self = super()._clone()
        clone._lock_options = self._lock_options
        clone.is_read_alone = self.is_read_alone
        clone._asked = self._asked
        return clone

    def _fetch_all(self) -> None:
        options = self._lock_options
        self._note_asked()
        if options is not None and self._result_cache is None:
            # The transaction keeps the rows, as it does a database's row locks.
            with lock_rows(self._locked_by(None), **options) as rows:
                pass
            self._result_cache = list(rows)
            self._prefetch_done = True
        super()._fetch_all()
