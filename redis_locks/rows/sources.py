"""What to lock: the rows of a queryset, or instances, read before they are locked and again after.

The second reading is what a row lock is for: what the first one found may be another's by the
time it is locked. A database does the same behind SELECT FOR UPDATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django.db.models import Model, Q, QuerySet

from redis_locks.rows.columns import Column, columns_of
from redis_locks.rows.names import Row, row_of

M = TypeVar("M", bound=Model)

BATCH = 200
"""How many rows of a queryset `skip_locked` with a limit looks at in one step."""


class Candidate(NamedTuple):
    """A row that was read, and all the locks for it, those of related rows included."""

    pk: Any
    rows: tuple[Row, ...]


class Source(Protocol[M]):
    """Where rows come from. The methods ask the database; they block."""

    database: str
    limit: int | None

    def candidates(self, seen: Iterable[Any]) -> list[Candidate]:
        """Return the rows to lock, without those whose primary keys are in `seen`."""

    def fetch(self, locked: Sequence[Candidate]) -> tuple[list[M], list[Candidate]]:
        """Read those rows again, as they are now; a row may be gone."""


def candidate_of(columns: Sequence[Column], database: str, values: Sequence[Any]) -> Candidate:
    """Return the candidate for one line of a query: its primary key, and a key for each column."""
    pairs = zip(columns, values[1:], strict=True)
    # A relation may lead nowhere.
    rows = (row_of(column.model, database, pk) for column, pk in pairs if not is_null(pk))
    return Candidate(values[0], tuple(dict.fromkeys(rows)))


def is_null(pk: object) -> bool:
    """Whether a primary key, or a part of it, is missing."""
    return pk is None or (isinstance(pk, tuple) and None in pk)


class QuerySource(Generic[M]):
    """The rows of a queryset.

    `of` as in `lock_rows`; empty, it is the row itself and what the queryset selects with it.
    """

    def __init__(
        self, rows: QuerySet[M], of: Sequence[str], limit: int | None, *, skip_locked: bool
    ) -> None:
        if rows.query.combinator:
            msg = f"rows must not be a {rows.query.combinator}() of querysets; lock each of them"
            raise ValueError(msg)
        if rows.query.where.contains_over_clause:
            msg = (
                "rows must not be filtered by a window function; lock "
                f"{rows.model.__name__}.objects.filter(pk__in=rows.values('pk')) instead"
            )
            raise ValueError(msg)
        self.database = primary_of(rows)
        rows = rows.using(self.database)
        start, end = rows.query.low_mark, rows.query.high_mark
        if rows.query.is_sliced and (limit is not None or (skip_locked and start)):
            what = "limit" if limit is not None else "skip_locked"
            msg = f"{what} cannot be used with a sliced queryset such as rows[{start}:{end or ''}]"
            raise ValueError(msg)
        self._columns = columns_of(rows.model, of or ("self", *_selected(rows)))
        self._all: QuerySet[M] = rows.all()
        self._all.query.clear_limits()
        self._related = any(column.lookup != "pk" for column in self._columns)
        self.limit = end if skip_locked and end is not None else limit
        if skip_locked:
            self._asked = self._all
            self._most = None if self.limit is None else max(BATCH, self.limit)
        else:
            self._asked, self._most = rows, limit
        self._at_most = self.limit if end is None else end - (start or 0)

    def candidates(self, seen: Iterable[Any]) -> list[Candidate]:
        """Return the rows that match now, in order."""
        seen = list(seen)
        rows = self._asked.exclude(among(seen)) if seen else self._asked
        return self._read(rows[: self._most] if self._most is not None else rows)

    def fetch(self, locked: Sequence[Candidate]) -> tuple[list[M], list[Candidate]]:
        """Return those of the rows that still match; an instance once, whatever it is joined with."""
        rows = self._all.filter(among([candidate.pk for candidate in locked]))
        now = self._read(rows) if self._related else list(locked)
        # Rows of values() have no identity of their own.
        found: Iterable[Any] = rows
        each = {row if isinstance(row, Model) else place: row for place, row in enumerate(found)}
        return list(each.values())[: self._at_most], now

    def _read(self, rows: QuerySet[M]) -> list[Candidate]:
        return read_rows(rows, self._columns)


def primary_of(rows: QuerySet[Any]) -> str:
    """Return the alias of the database to which the rows are written."""
    return rows.select_for_update().db


def read_rows(rows: QuerySet[Any], columns: Sequence[Column]) -> list[Candidate]:
    """The rows of a queryset, each once, whatever it is joined with."""
    found = rows.prefetch_related(None).values_list("pk", *(column.lookup for column in columns))
    merged: dict[Any, list[Row]] = {}
    for values in found:
        candidate = candidate_of(columns, rows.db, values)
        merged.setdefault(candidate.pk, []).extend(candidate.rows)
    return [Candidate(pk, tuple(dict.fromkeys(rows))) for pk, rows in merged.items()]


def among(pks: Sequence[Any]) -> Q:
    """The rows with these keys. One of several columns is a term, and SQLite's nest 1000 deep."""
    starts = range(0, len(pks), BATCH)
    return reduce(or_, (Q(pk__in=pks[start : start + BATCH]) for start in starts))


def _selected(rows: QuerySet[Any]) -> list[str]:
    """The paths that the queryset was given to select_related."""

    def paths(tree: dict[str, Any], prefix: str) -> list[str]:
        return [
            path
            for name, below in tree.items()
            for path in (f"{prefix}{name}", *paths(below, f"{prefix}{name}__"))
        ]

    tree = rows.query.select_related
    return paths(tree, "") if isinstance(tree, dict) else []
