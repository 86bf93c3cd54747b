"""How rows are named as locks, and how they are found and locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks.rows import sources
from redis_locks.rows.locked_rows import Locking
from redis_locks.rows.names import row_of
from redis_locks.rows.sets import escalated
from redis_locks.rows.sources import Candidate, QuerySource

Find = Callable[..., Any]


def read_at_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """A search with `skip_locked` reads so many rows at a time."""
    monkeypatch.setattr(sources, "BATCH", rows)


def find_rows(monkeypatch: pytest.MonkeyPatch, find: Callable[[Find], Any]) -> None:
    """Have `find(plain)` find the rows to lock; `plain()` is what the product does."""
    plain = QuerySource.candidates
    monkeypatch.setattr(QuerySource, "candidates", lambda *args: find(lambda: plain(*args)))


def after_locking(monkeypatch: pytest.MonkeyPatch, do: Callable[[Any], object]) -> None:
    """Do something with the rows of a block once they are locked."""
    plain = Locking.lock

    async def lock(locking: Locking[Any], *args: Any) -> Any:
        rows = await plain(locking, *args)
        do(rows)
        return rows

    monkeypatch.setattr(Locking, "lock", lock)
