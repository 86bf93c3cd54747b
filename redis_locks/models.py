"""Locks and waiters, for Django's permissions and admin. They live in Redis: no table, no rows."""

from __future__ import annotations

from typing import TypeVar

from django.db import models
from django.utils.translation import pgettext_lazy

from redis_locks.values.keys import MAX_NAME_BYTES
from redis_locks.values.text import printable

M = TypeVar("M", bound=models.Model)


class NoRows(models.Manager[M]):
    """Finds nothing without asking the database, so that `dumpdata` and the like work."""

    def get_queryset(self) -> models.QuerySet[M]:
        """Return the empty queryset."""
        return super().get_queryset().none()


class Lock(models.Model):
    """A lock by its name; who holds it is known to `redis_locks.inspection`."""

    name = models.CharField(
        pgettext_lazy("locks", "name"), max_length=MAX_NAME_BYTES, primary_key=True
    )

    objects = NoRows["Lock"]()

    class Meta:
        managed = False
        base_manager_name = "objects"
        verbose_name = pgettext_lazy("locks", "lock")
        verbose_name_plural = pgettext_lazy("locks", "locks")
        default_permissions = ("view",)
        permissions = [("release_lock", "Can force-release lock")]

    def __str__(self) -> str:
        return printable(self.name)


class Waiter(models.Model):
    """A place in a lock's queue."""

    token = models.CharField(pgettext_lazy("locks", "token"), max_length=100, primary_key=True)

    objects = NoRows["Waiter"]()

    class Meta:
        managed = False
        base_manager_name = "objects"
        verbose_name = pgettext_lazy("locks", "waiter")
        verbose_name_plural = pgettext_lazy("locks", "waiters")
        default_permissions = ()
        permissions = [("cancel_waiter", "Can cancel waiter")]

    def __str__(self) -> str:
        return printable(self.token)
