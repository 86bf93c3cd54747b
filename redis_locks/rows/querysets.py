"""`RedisLockQuerySet`: `select_for_lock` in the place of ``select_for_update``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self, TypeVar

from django.db.models import Model

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.rows.blocks import checked_of, checked_wait, lock_rows
from redis_locks.rows.fenced_rows import FencedQuerySet
from redis_locks.values.arguments import optional_text
from redis_locks.values.modes import RowMode, row_mode

M = TypeVar("M", bound=Model)


class RedisLockQuerySet(FencedQuerySet[M]):
    """A queryset whose rows can be locked when it is evaluated, as by ``select_for_update``.

    The rows of a `FencedModel` can be written under a hold: see `fenced`.
    """

    _lock_options: dict[str, Any] | None = None

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
        locks ten free rows. The evaluation blocks for up to `wait` seconds. It raises what `lock_rows`
        raises, or TransactionManagementError outside a transaction. As with ``select_for_update``,
        `count`, `exists`, `update` and `delete` lock nothing. An instance that a join finds several
        times appears once.

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
        return rows

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

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows, and lock nothing."""
        deleted = super(RedisLockQuerySet, self._locked_by(None)).delete()
        self._result_cache = None
        return deleted

    delete.alters_data = True  # type: ignore[attr-defined]  # no template calls it
    delete.queryset_only = True  # type: ignore[attr-defined]  # no manager has it

    def _clone(self) -> Self:
        clone: Self = super()._clone()
        clone._lock_options = self._lock_options
        return clone

    def _fetch_all(self) -> None:
        options = self._lock_options
        if options is not None and self._result_cache is None:
            # The transaction keeps the rows, as it does a database's row locks.
            with lock_rows(self._locked_by(None), **options) as rows:
                pass
            self._result_cache = list(rows)
            self._prefetch_done = True
        super()._fetch_all()
