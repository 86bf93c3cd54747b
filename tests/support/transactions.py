"""What ends with a transaction: the holds that it keeps, and what is verified before its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from redis_locks.locks import commit_guard
from redis_locks.locks.transactions import Kept, Transactions, transactions_of

Do = Callable[[], object]


def _do_nothing() -> None:
    pass


def keeps_anything(database: str) -> bool:
    """Whether the transactions of this thread's connection keep a hold."""
    return bool(transactions_of(connections[database])._kept)


def end(database: str) -> None:
    """Release what the transaction keeps, as its end does."""
    transactions_of(connections[database]).end(committed=True)


def at_commit(
    monkeypatch: pytest.MonkeyPatch, *, before: Do = _do_nothing, after: Do = _do_nothing
) -> None:
    """Do something before and after the guard verifies the leases of a commit."""
    verify = commit_guard.verify

    def verified(leases: Any) -> None:
        before()
        verify(leases)
        after()

    monkeypatch.setattr(commit_guard, "verify", verified)


def at_release(monkeypatch: pytest.MonkeyPatch, before: Do) -> None:
    """Do something before a transaction that has ended releases a hold."""
    leave = Kept.leave

    def left(kept: Kept, ended: Transactions, *, committed: bool) -> None:
        before()
        leave(kept, ended, committed=committed)

    monkeypatch.setattr(Kept, "leave", left)
