"""Instances to lock.

Their relations are read before they are locked, and everything again after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from django.db import router
from django.db.models import Model

from redis_locks.rows.columns import columns_of
from redis_locks.rows.names import row_of
from redis_locks.rows.sources import Candidate, among, candidate_of, is_null, read_rows

M = TypeVar("M", bound=Model)


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
                msg = f"rows must be saved before they are locked, not {instance!r}"
                raise ValueError(msg)
        databases = {router.db_for_write(type(each), instance=each) for each in instances}
        if len(databases) > 1:
            msg = f"rows must be of one database, not of {', '.join(sorted(databases))}"
            raise ValueError(msg)
        self.database = databases.pop() if databases else "default"
        for kind in {type(instance) for instance in instances}:
            columns_of(kind, self._of)

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
        return read_rows(rows, columns_of(kind, self._of))

    def _candidate(self, instance: M) -> Candidate:
        columns = columns_of(type(instance), self._of)
        values = [_value(instance, column.lookup) for column in columns]
        return candidate_of(columns, self.database, [_key(instance), *values])


def _key(instance: Model) -> Any:
    return type(instance), instance.pk


def _value(instance: Model, lookup: str) -> Any:
    value: Any = instance
    for part in lookup.split("__"):
        value = getattr(value, part)
    return value
