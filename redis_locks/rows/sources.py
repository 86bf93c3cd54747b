"""Where the rows to lock come from: read before they are locked, and again afterwards.

By the time a row is locked, somebody else may have changed what the first reading found. A database
reads again, too, behind SELECT FOR UPDATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from django.core.exceptions import FieldDoesNotExist
from django.db import router
from django.db.models import Model, Q, QuerySet
from django.db.models.sql import Query

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


def _candidate_of(columns: Sequence[Column], database: str, values: Sequence[Any]) -> Candidate:
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
            raise ValueError(
                "rows must not be filtered by a window function; lock "
                f"{rows.model.__name__}.objects.filter(pk__in=rows.values('pk')) instead"
            )
        if rows.query.where.contains_aggregate and _lacks_key(rows.query, rows.query.group_by):
            raise ValueError(
                "rows of grouped values() must not be filtered by an aggregate: filter the result "
                "instead"
            )
        self.database = primary_of(rows)
        rows = rows.using(self.database)
        start, end = rows.query.low_mark, rows.query.high_mark
        if rows.query.is_sliced and (limit is not None or (skip_locked and start)):
            what = "limit" if limit is not None else "skip_locked"
            msg = f"{what} cannot be used with a sliced queryset such as rows[{start}:{end or ''}]"
            raise ValueError(msg)
        if (rows.query.is_sliced or limit is not None or skip_locked) and needs_all(rows.query):
            raise ValueError(
                "rows with a window annotation, or with grouped or distinct values(), can only be "
                "locked as a whole. Without limit and skip_locked, slice the result instead of the "
                "queryset"
            )
        of = of or ("self", *_selected(rows))
        self._columns = _columns_of(rows.model, of)
        self._multiply = _multiply(rows.model, of)
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
            pks = [each.pk for each in _read_rows(rows, ())]
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
        return _read_rows(rows, self._columns)


class InstanceSource(Generic[M]):
    """The caller's instances; they are read again once they are locked."""

    def __init__(
        self, instances: Sequence[M], of: Sequence[str], limit: int | None, *, skip_locked: bool
    ) -> None:
        self._instances = instances if skip_locked else instances[:limit]
        self._of = of or ("self",)
        self.limit = limit
        for instance in instances:
            if is_null(instance.pk) or instance._state.adding:
                raise ValueError(f"rows must be saved before they are locked, not {instance!r}")
        databases = {router.db_for_write(type(each), instance=each) for each in instances}
        if len(databases) > 1:
            raise ValueError(f"rows must be of one database, not of {', '.join(sorted(databases))}")
        self.database = databases.pop() if databases else "default"
        for kind in {type(instance) for instance in instances}:
            _columns_of(kind, self._of)

    def candidates(self, seen: Iterable[Any]) -> list[Candidate]:
        """Return the instances' rows."""
        seen = set(seen)
        return self._candidates([each for each in self._instances if _key(each) not in seen])

    def fetch(self, locked: Sequence[Candidate]) -> tuple[list[M], list[Candidate]]:
        """Read the instances again; raises DoesNotExist if one is gone."""
        pks = {candidate.pk for candidate in locked}
        instances = [each for each in self._instances if _key(each) in pks]
        for instance in instances:
            instance.refresh_from_db(using=self.database)
        return instances, self._candidates(instances)

    def _candidates(self, instances: Sequence[M]) -> list[Candidate]:
        if self._of == ("self",):
            return [self._candidate(instance) for instance in instances]
        # From the database: only it has all rows of a reverse relation.
        related = {
            row_of(kind, self.database, pk): rows
            for kind in {type(each) for each in instances}
            for pk, rows in self._related(
                kind, [each.pk for each in instances if type(each) is kind]
            )
        }
        rows = [related.get(row_of(type(each), self.database, each.pk), ()) for each in instances]
        return [
            Candidate(_key(each), related_rows)
            for each, related_rows in zip(instances, rows, strict=True)
        ]

    def _related(self, kind: type[M], pks: Sequence[Any]) -> list[Candidate]:
        rows = kind._base_manager.using(self.database).filter(among(pks))
        return _read_rows(rows, _columns_of(kind, self._of))

    def _candidate(self, instance: M) -> Candidate:
        columns = _columns_of(type(instance), self._of)
        values = [_value(instance, column.lookup) for column in columns]
        return _candidate_of(columns, self.database, [_key(instance), *values])


def _key(instance: Model) -> Any:
    return type(instance), instance.pk


def _value(instance: Model, lookup: str) -> Any:
    value: Any = instance
    for part in lookup.split("__"):
        value = getattr(value, part)
    return value


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


def _read_rows(rows: QuerySet[Any], columns: Sequence[Column]) -> list[Candidate]:
    """Return the rows of a queryset, each once, whatever it is joined with."""
    lookups = ["pk", *(column.lookup for column in columns)]
    # Of a composite key that is asked for twice, Django gives one.
    once = list(dict.fromkeys(lookups))
    places = [once.index(lookup) for lookup in lookups]
    merged: dict[Any, list[Row]] = {}
    for values in rows.prefetch_related(None).values_list(*once):
        candidate = _candidate_of(columns, rows.db, [values[place] for place in places])
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
    if tree is True or names.keys() - set(_relations_of(rows.model)):
        raise ValueError(
            f"rows have select_related({', '.join(map(repr, names))}), which does not name "
            f"relations of {rows.model._meta.label}: name them, or say by `of` what to lock, such "
            "as of=('self',)"
        )
    return paths(names, "")


class Column(NamedTuple):
    """A model whose rows are locked, and the lookup from the queried model to their primary key."""

    model: type[Model]
    lookup: str


def _columns_of(model: type[Model], of: Sequence[str]) -> list[Column]:
    """Return the columns for the paths in `of`; "self" is the model itself.

    Raises:
        ValueError: A path does not lead to a model; the message lists the paths that do.
    """
    return list(
        dict.fromkeys(
            column
            for path in of
            for column in _with_parents(
                *((model, "") if path == "self" else (_related(model, path), f"{path}__"))
            )
        )
    )


def _multiply(model: type[Model], of: Sequence[str]) -> bool:
    """Whether the paths in `of` may give several lines of a query for one row."""
    steps = (step for path in of if path != "self" for step in _steps(model, path))
    return any(step.one_to_many or step.many_to_many for step in steps)


def _related(model: type[Model], path: str) -> type[Model]:
    *_, last = _steps(model, path)
    related: type[Model] = last.related_model
    return related


def _steps(model: type[Model], path: str) -> Iterator[Any]:
    """Yield the relations of a path."""
    at: type[Model] = model
    for part in path.split("__"):
        try:
            field = at._meta.get_field(part)
        except FieldDoesNotExist:
            field = None
        related: type[Model] | None = getattr(field, "related_model", None)
        if related is None:
            raise ValueError(
                f"of must name relations of {model._meta.label}, or 'self', not {path!r}; "
                f"{at._meta.label} has {', '.join(_relations_of(at)) or 'none'}"
            )
        yield field
        at = related


def _relations_of(model: type[Model]) -> list[str]:
    """Return the names of the model's relations, also of those from other models to it."""
    fields = model._meta.get_fields()
    return sorted(field.name for field in fields if isinstance(field.related_model, type))


def _with_parents(model: type[Model], prefix: str) -> Iterator[Column]:
    """The model and the parents whose tables have a part of its rows."""
    concrete = model._meta.concrete_model or model
    yield Column(concrete, f"{prefix}pk")
    for parent in concrete._meta.get_parent_list():
        steps = concrete._meta.get_path_to_parent(parent)
        link = "__".join(step.join_field.name for step in steps)
        yield Column(parent, f"{prefix}{link}__pk")
