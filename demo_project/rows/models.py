"""Accounts as rows, and the operations that were applied to them."""

from __future__ import annotations

from django.db import models

from redis_locks.fencing import FencedModel


class Account(FencedModel):
    """An account with its balance in whole cents; no rule of the database forbids an overdraft."""

    name = models.CharField(max_length=100, primary_key=True)
    cents = models.BigIntegerField()

    def __str__(self) -> str:
        return self.name


class Operation(models.Model):
    """A transfer that was made: its id is written with the money, so it is made once."""

    operation_id = models.CharField(max_length=100, primary_key=True)
    sender = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="operations")

    def __str__(self) -> str:
        return self.operation_id
