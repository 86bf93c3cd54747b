"""Rows to write under locks."""

from __future__ import annotations

from django.db import models

from redis_locks import RunOnceRecord
from redis_locks.fencing import FencedModel
from redis_locks.rows import RedisLockManager


class Counter(FencedModel):
    """A number that is read, incremented in Python and written back."""

    name = models.CharField(max_length=100, unique=True)
    value = models.IntegerField(default=0)


class NotedCounter(Counter):
    """A counter with a table of its own beside its parent's."""

    note = models.CharField(max_length=100, default="")


class Guarded(FencedModel):
    """A row that is changed under a hold only."""

    fenced = "required"
    name = models.CharField(max_length=100, unique=True)
    number = models.IntegerField(default=0)
    counter = models.ForeignKey(Counter, models.CASCADE, null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["counter", "number"], name="one_number"),)

    objects = RedisLockManager()


class Declared(FencedModel):
    """A row that says under which lock it is."""

    fenced_by = "soft:{pk}"
    state = models.CharField(max_length=9, default="new")

    objects = RedisLockManager()


class Strict(FencedModel):
    """The same, and it is changed under a hold only."""

    fenced = "required"
    fenced_by = "soft:{pk}"
    state = models.CharField(max_length=9, default="new")

    objects = RedisLockManager()


class Undeclared(FencedModel):
    """A row that does not say under which lock it is."""

    state = models.CharField(max_length=9, default="new")

    objects = RedisLockManager()


class Titled(models.Model):
    """A row of a model without a fence."""

    title = models.CharField(max_length=100, default="")

    def __str__(self) -> str:
        return self.title


class TitledCounter(FencedModel, Titled):
    """A fenced row beside a parent's that is not."""

    value = models.IntegerField(default=0)


class Entry(models.Model):
    """A row with a key of two parts, that may belong to a counter."""

    pk = models.CompositePrimaryKey("book", "number")
    book = models.CharField(max_length=100)
    number = models.IntegerField()
    counter = models.ForeignKey(Counter, models.CASCADE, null=True)

    objects = RedisLockManager()

    def __str__(self) -> str:
        return f"{self.book} {self.number}"


class DoneJob(RunOnceRecord):
    """A job that is done."""
