"""`RunOnceRecord`: that a job is done, as a row of the database in which it works.

Both are committed together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, connections, models, router
from django.db.transaction import atomic
from django.utils import timezone

from redis_locks.exceptions import ResultNotStored
from redis_locks.run_once.results import ResultFormat

_MOST_PRUNED: Final = 100
"""How many expired rows a run deletes."""


class RunOnceRecord(models.Model):
    """A job that is done, as a row which is committed with the job's own writes.

    Make a concrete subclass, with a migration, and give that to ``run_once(..., record=...)``.
    Several jobs may share it. The row is inserted before the job runs. Rows that are older than
    `done_ttl` are deleted by later runs.
    """

    key = models.CharField(max_length=64, primary_key=True, editable=False)
    """A digest of the name: some databases take "A" for "a"."""
    name = models.TextField(editable=False)
    result = models.TextField(default="", editable=False)
    """The stored result as JSON; empty if none is stored."""
    expires_at = models.DateTimeField(db_index=True, editable=False)
    """When the job may run anew."""

    objects = models.Manager()  # Django would add it; mypy does not find that one here

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Record(NamedTuple):
    """The row of one job."""

    model: type[RunOnceRecord]
    name: str
    done_ttl: float
    format: ResultFormat
    stores: bool
    """Whether the result is stored."""

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, in one transaction with the row.

        Or the stored result, if the row was there.

        Raises what `work` raises, and what the database does: then neither is committed.
        """
        using = router.db_for_write(self.model)
        rows = self.model._base_manager.using(using)
        with atomic(using=using):
            done = self._insert(rows, using)
            if done is not None:
                return self.format.read(done)
            value = work()
            self._prune(rows, using)
            text = ""
            if self.stores:
                with suppress(ResultNotStored):  # the end of the attempt tells why
                    text, _ = self.format.store(self.name, value)
            rows.filter(pk=self._key).update(result=text, expires_at=self._expires_at())
        return value

    def find(self) -> str | None:
        """Return the stored result of the job as text; None if there is no row."""
        rows = self.model._base_manager.using(router.db_for_write(self.model))
        done = rows.filter(pk=self._key, expires_at__gt=timezone.now())
        return done.values_list("result", flat=True).first()

    @property
    def _key(self) -> str:
        return sha256(self.name.encode()).hexdigest()

    def _expires_at(self) -> Any:
        return timezone.now() + timedelta(seconds=self.done_ttl)

    def _insert(self, rows: models.QuerySet[Any], using: str) -> str | None:
        """Insert the row; return the result in it if it is there already.

        Waits for others that insert it, too.
        """
        ours = {"name": self.name, "result": "", "expires_at": self._expires_at()}
        if rows.filter(pk=self._key, expires_at__lte=timezone.now()).update(**ours):
            return None
        try:
            with atomic(using=using):
                rows.create(pk=self._key, **ours)
        except IntegrityError:
            # A plain read might not see what was committed since this transaction began.
            results = rows.select_for_update().filter(pk=self._key).values_list("result", flat=True)
            done: str | None = results.first()
            if done is None:
                raise
            return done
        return None

    def _prune(self, rows: models.QuerySet[Any], using: str) -> None:
        expired = rows.filter(expires_at__lte=timezone.now()).order_by("expires_at")
        if connections[using].features.has_select_for_update_skip_locked:
            # Two jobs that waited for each other's rows would be a deadlock.
            expired = expired.select_for_update(skip_locked=True)
        if keys := list(expired.values_list("pk", flat=True)[:_MOST_PRUNED]):
            rows.filter(pk__in=keys).delete()
