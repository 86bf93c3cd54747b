"""How much of locks is read at once, and how waits are cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks.inspection import queries, termination
from redis_locks.inspection.story import tell
from redis_locks.inspection.survey import FEW


def work_in_parts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Holders and waiters are read, and ended, so many at a time."""
    monkeypatch.setattr(queries, "_PARTIES", size)
    monkeypatch.setattr(termination, "_AT_ONCE", size)


def before_cancel(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something before each wait is cancelled."""
    really = termination._cancel

    async def too_late(*args: Any, **options: str) -> bool:
        do()
        return await really(*args, **options)

    monkeypatch.setattr(termination, "_cancel", too_late)
