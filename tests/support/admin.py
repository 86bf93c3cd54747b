"""What the admin's pages make of locks: their addresses, rows and limits."""

from __future__ import annotations

import pytest

from redis_locks.admin import page_content
from redis_locks.admin.paths import from_path, to_path
from redis_locks.admin.table_rows import LockRow, mode_text
from redis_locks.inspection import filters

__all__ = ["LockRow", "from_path", "mode_text", "to_path"]


def show_waiters(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The page of a lock shows at most so many waiters."""
    monkeypatch.setattr(page_content, "MOST_WAITERS_SHOWN", most)


def search_for_blockers(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The page of a lock looks for blockers among at most so many locks."""
    monkeypatch.setattr(page_content, "MOST_LOCKS_SEARCHED", most)


def list_a_page(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A page of the list has so many locks."""
    monkeypatch.setattr(filters, "PAGE_SIZE", size)


def search_the_list(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A search or an order of the list looks at no more than so many locks."""
    monkeypatch.setattr(filters, "MOST_SEARCHED", most)
