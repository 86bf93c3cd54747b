"""What ends with a transaction: the holds that it keeps, and what is verified before its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks.locks import held_until_commit
from redis_locks.locks.held_until_commit import ENDS

__all__ = ["ENDS"]

Do = Callable[[], object]


def _do_nothing() -> None:
    pass


def at_commit(
    monkeypatch: pytest.MonkeyPatch, *, before: Do = _do_nothing, after: Do = _do_nothing
) -> None:
    """Do something before and after the guard verifies the holds of a commit."""
    verify = held_until_commit.verify

    def verified(holds: Any) -> None:
        before()
        verify(holds)
        after()

    monkeypatch.setattr(held_until_commit, "verify", verified)


def at_release(monkeypatch: pytest.MonkeyPatch, before: Do) -> None:
    """Do something before a transaction that has ended releases a hold."""
    release = held_until_commit._release

    def released(hold: Any) -> None:
        before()
        release(hold)

    monkeypatch.setattr(held_until_commit, "_release", released)
