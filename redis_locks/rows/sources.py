"""Where the rows to lock come from: read before they are locked, and again afterwards.

By the time a row is locked, somebody else may have changed what the first reading found. A database
reads again, too, behind SELECT FOR UPDATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from django.db.models import Model, Q, QuerySet
from django.db.models.sql import Query

from redis_locks.rows.columns import Column, columns_of, multiply, relations_of
from redis_locks.rows.names import Row, row_of

M = TypeVar("M", bound=Model)

BATCH = 200
"""How many rows one condition names, and how many more than `limit` one step reads at most with
`skip_locked`.
"""

FEW = 15
"""How many more than `limit` the first step reads with `skip_locked`: more than there are workers,
as a rule.
"""


class Candidate(NamedTuple):
    """A row that was read, and all its locks, including those of related rows."""

    pk: Any
    rows: tuple[Row, ...]


class RowSource(Protocol[M]):
    """Where rows come from. The methods ask the database; they block."""

    database: str
    limit: int | None

    def candidates(self, seen: Iterable[Any]) -> list[Candidate]:
        """Return the rows to lock, without those whose primary keys are in `seen`."""

    def fetch(self, locked: Sequence[Candidate]) -> tuple[list[M], list[Candidate]]:
        """Read the locked rows again, as they are now; a row may be gone."""


def candidate_of(columns: Sequence[Column], database: str, values: Sequence[Any]) -> Candidate:
    """Return the candidate for one line of a query: the primary key, and a key for each column."""
    pairs = zip(columns, values[1:], strict=True)
    # A relation may be NULL.
    rows = (row_of(column.model, database, pk) for column, pk in pairs if not is_null(pk))
    return Candidate(values[0], tuple(dict.fromkeys(rows)))


def is_null(pk: object) -> bool:
    """Whether a primary key, or a part of it, is missing."""
    return pk is None or (isinstance(pk, tuple) and None in pk)


class QuerySource(Generic[M]):
    """The rows of a queryset.

    `of` is as in `lock_rows`; if it is empty, the rows and those in the queryset's
    ``select_related``.
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
        if rows.query.where.contains_aggregate and _lacks_key(rows.query, rows.query.group_by):
            msg = (
                "rows of grouped values() must not be filtered by an aggregate: filter the result "
                "instead"
            )
            raise ValueError(msg)
        self.database = primary_of(rows)
        rows = rows.using(self.database)
        start, end = rows.query.low_mark, rows.query.high_mark
        if rows.query.is_sliced and (limit is not None or (skip_locked and start)):
            what = "limit" if limit is not None else "skip_locked"
            msg = f"{what} cannot be used with a sliced queryset such as rows[{start}:{end or ''}]"
            raise ValueError(msg)
        if (rows.query.is_sliced or limit is not None or skip_locked) and needs_all(rows.query):
            msg = (
                "rows with a window annotation, or with grouped or distinct values(), can only be "
                "locked as a whole. Without limit and skip_locked, slice the result instead of the "
                "queryset"
            )
            raise ValueError(msg)
        of = of or ("self", *_selected(rows))
        self._columns = columns_of(rows.model, of)
        self._multiply = multiply(rows.model, of)
        self._all: QuerySet[M] = rows.all()
        self._all.query.clear_limits()
        self._related = any(column.lookup != "pk" for column in self._columns)
        self.limit = end if skip_locked and end is not None else limit
        self._asked = self._all if skip_locked else rows
        self._skip_locked = skip_locked
        self._at_most = self.limit if end is None else end - (start or 0)

    def candidates(self, seen: Iterable[Any]) -> list[Candidate]:
        """Return the rows that match now, in order."""
        seen = list(seen)
        rows = self._asked.exclude(among(seen)) if seen else self._asked
        if self.limit is not None:
            # Others hold those that were seen, so they may hold as many of the next ones.
            more = min(BATCH, max(FEW, 4 * len(seen))) if self._skip_locked else 0
            rows = rows[: self.limit + more]
        if self._multiply and rows.query.is_sliced:
            # The slice is of rows, and each needs all of its lines.
            pks = [each.pk for each in read_rows(rows, ())]
            rows = self._all.filter(among(pks)) if pks else rows.none()
        return self._read(rows)

    def fetch(self, locked: Sequence[Candidate]) -> tuple[list[M], list[Candidate]]:
        """Return the rows that still match; each instance once, whatever it is joined with."""
        rows = self._all.filter(among([candidate.pk for candidate in locked]))
        now = self._read(rows) if self._related else list(locked)
        # Rows of values() have no identity: count each by its place.
        current: Iterable[Any] = rows
        each = {
            _identity(row) if isinstance(row, Model) else place: row
            for place, row in enumerate(current)
        }
        return list(each.values())[: self._at_most], now

    def _read(self, rows: QuerySet[M]) -> list[Candidate]:
        return read_rows(rows, self._columns)


def _identity(row: Model) -> tuple[object, ...]:
    """Return what tells a row from others.

    Its key, and of whom it is one where Django prefetches it for several.
    """
    owners = (value for name, value in vars(row).items() if name.startswith(_PREFETCHED_FOR))
    return (row, *owners)


_PREFETCHED_FOR: Final = "_prefetch_related_val_"


def primary_of(rows: QuerySet[Any]) -> str:
    """Return the alias of the database to which the rows are written."""
    return rows.select_for_update().db


def read_rows(rows: QuerySet[Any], columns: Sequence[Column]) -> list[Candidate]:
    """Return the rows of a queryset, each once, whatever it is joined with."""
    lookups = ["pk", *(column.lookup for column in columns)]
    # Of a composite key that is asked for twice, Django gives one.
    once = list(dict.fromkeys(lookups))
    places = [once.index(lookup) for lookup in lookups]
    merged: dict[Any, list[Row]] = {}
    for values in rows.prefetch_related(None).values_list(*once):
        candidate = candidate_of(columns, rows.db, [values[place] for place in places])
        merged.setdefault(candidate.pk, []).extend(candidate.rows)
    return [Candidate(pk, tuple(dict.fromkeys(rows))) for pk, rows in merged.items()]


def among(pks: Sequence[Any]) -> Q:
    """Return the condition for these keys, in batches.

    SQLite nests at most 1,000 terms, one a composite key.
    """
    starts = range(0, len(pks), BATCH)
    return reduce(or_, (Q(pk__in=pks[start : start + BATCH]) for start in starts))


def needs_all(query: Query) -> bool:
    """Whether a line depends on more rows than its own.

    Reading only some rows again would change it.
    """
    if any(each.contains_over_clause for each in query.annotation_select.values()):
        return True
    distinct = query.select if query.distinct and not query.default_cols else None
    return _lacks_key(query, query.group_by) or _lacks_key(query, distinct)


def _lacks_key(query: Query, columns: object) -> bool:
    """Whether a line of values() that these columns make may stand for several rows."""
    key = {*query.get_meta().pk_fields}
    return isinstance(columns, tuple) and not key.issubset(
        getattr(column, "target", None) for column in columns
    )


def _selected(rows: QuerySet[Any]) -> list[str]:
    """Return the paths in the queryset's ``select_related``.

    Raises:
        ValueError: It is without names, or names a FilteredRelation.
    """

    def paths(tree: dict[str, Any], prefix: str) -> list[str]:
        return [
            path
            for name, below in tree.items()
            for path in (f"{prefix}{name}", *paths(below, f"{prefix}{name}__"))
        ]

    tree = rows.query.select_related
    names = tree if isinstance(tree, dict) else {}
    if tree is True or names.keys() - set(relations_of(rows.model)):
        msg = (
            f"rows have select_related({', '.join(map(repr, names))}), which does not name "
            f"relations of {rows.model._meta.label}: name them, or say by `of` what to lock, such "
            "as of=('self',)"
        )
        raise ValueError(msg)
    return paths(names, "")
