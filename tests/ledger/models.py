"""Rows to write under locks."""

from __future__ import annotations

from django.db import models

from redis_locks.fencing import FencedModel


class Counter(FencedModel):
    """A number that is read, incremented in Python and written back."""

    name = models.CharField(max_length=100, unique=True)
    value = models.IntegerField(default=0)


class NotedCounter(Counter):
    """A counter with a table of its own beside its parent's."""

    note = models.CharField(max_length=100, default="")
