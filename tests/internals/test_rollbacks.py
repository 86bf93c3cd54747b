"""What is undone after a rollback: all of it, and no more, whatever interrupts one of them."""

from __future__ import annotations

import pytest
from django.db import connections
from django.db.transaction import atomic, set_rollback

from redis_locks.locks.transactions import transactions_of


def test_an_interrupt_of_one_keeps_no_other_from_being_undone(database: str) -> None:
    transactions = transactions_of(connections[database])
    undone: list[str] = []

    def interrupted() -> None:
        undone.append("second")
        raise KeyboardInterrupt

    with atomic(using=database):
        transactions.on_rollback(lambda: undone.append("of all"))
        before = connections[database].savepoint()
        transactions.on_rollback(lambda: undone.append("first"))
        transactions.on_rollback(interrupted)
        transactions.on_rollback(lambda: undone.append("third"))
        with pytest.raises(KeyboardInterrupt):
            connections[database].savepoint_rollback(before)
        assert ["first", "second", "third"] == undone
        set_rollback(True, using=database)
    assert ["first", "second", "third", "of all"] == undone
