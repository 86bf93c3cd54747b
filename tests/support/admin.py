"""What the admin's pages make of locks: their addresses, rows and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import AdminSite

from redis_locks.admin import LockAdmin, bulk, lock_views, server_strip
from redis_locks.admin.paths import ServerPages, to_path
from redis_locks.admin.screens import KNOWN
from redis_locks.admin.table_rows import LockRow, mark_of, mode_text
from redis_locks.inspection import filters, survey
from redis_locks.inspection.survey import Queues, Survey
from redis_locks.models import Lock


def end_at_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The page that ends many holds and waits at once shows so many."""
    monkeypatch.setattr(bulk, "MOST_PARTIES", most)


def look_at_most(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The page that ends many holds and waits at once looks at so many locks."""
    for module, bound in (
        (bulk, "MOST"),
        (filters, "MOST"),
        (filters, "FEW"),
        (survey, "FEW_QUEUES"),
    ):
        monkeypatch.setattr(module, bound, most)


def count_questions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets longer whenever the badge asks the server."""
    asked, queues = [], server_strip.queues

    def counted(*, using: str | None) -> Queues:
        asked.append(1)
        return queues(using=using)

    monkeypatch.setattr(server_strip, "queues", counted)
    return asked


def register(site: AdminSite, **members: Any) -> None:
    """Put the locks on a site, with an admin of the project's own that has these members."""
    site.register(Lock, type("ProjectLockAdmin", (LockAdmin,), members))


def list_a_page(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A page of the list has so many locks."""
    monkeypatch.setattr(lock_views, "LOCKS_A_PAGE", size)


def keep_surveys(monkeypatch: pytest.MonkeyPatch, *, slower_than: float) -> None:
    """The list is kept for other readers if it took more than so many seconds to read."""
    monkeypatch.setattr(server_strip, "_QUICK", slower_than)


def read_surveys(monkeypatch: pytest.MonkeyPatch, *, in_seconds: float) -> Callable[[float], None]:
    """To read the list takes so many seconds, and no others pass. Returns what lets time pass."""
    now, survey = 0.0, server_strip.survey

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    def slow_survey(**options: Any) -> Survey:
        pass_by(in_seconds)
        return survey(**options)

    monkeypatch.setattr(server_strip, "survey", slow_survey)
    monkeypatch.setattr(server_strip, "monotonic", lambda: now)
    return pass_by
