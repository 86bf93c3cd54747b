"""What a page shows of the locks at one moment: in the page itself, and as news for its script."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.admin.sites import AdminSite
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response

from redis_locks import inspection, statistics
from redis_locks.admin.paths import lock_url
from redis_locks.admin.table_rows import EventRow, LockRow, PartyRow, SessionRow, fingerprint
from redis_locks.conf.settings import get_settings
from redis_locks.connections.backends import backend_for
from redis_locks.inspection import LockInfo
from redis_locks.inspection.blockers import Node, blocked, trees
from redis_locks.inspection.filters import Page

MOST_WAITERS_SHOWN = 100
"""How much of a queue a lock's page shows; how many more there are it says."""

MOST_LOCKS_SEARCHED = 1000
"""With more locks than this, who blocks whom is shown for one lock's own queue only."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What to show, the templates of its parts, and text that changes when it does."""

    now: float
    state: str
    context: Mapping[str, Any]
    parts: tuple[str, ...]

    @property
    def etag(self) -> str:
        """The state as an ETag; weak, as the page counts on its times by itself."""
        return f'W/"{self.state}"'

    @property
    def now_text(self) -> str:
        """Seconds since 1970 for the page's script, whatever the reader's separators."""
        return f"{self.now:.3f}"

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the parts as JSON, or 304 if the asker has them; `now` alone is no news."""
        if known := get_conditional_response(request, etag=self.etag):
            return known
        context = dict(self.context)
        parts = {
            part: render_to_string(f"admin/redis_locks/lock/{part}.html", context, request)
            for part in self.parts
        }
        return JsonResponse({"now": self.now, "parts": parts}, headers={"ETag": self.etag})


def list_screen(page: Page, site: AdminSite, *, filtered: bool, order: str) -> Screen:
    """Return the screen of one page of locks."""
    rows = [LockRow.of(lock, site) for lock in page.locks]
    ends = [holder.lease.ends for row in rows for holder in row.holders]
    counts = (page.number, page.pages, page.found, page.left_out)
    return Screen(
        now=max((lock.at for lock in page.locks), default=time.time()),
        state=fingerprint(counts, filtered, ends, [(row.url, row.state) for row in rows]),
        context={
            "page": page,
            "rows": rows,
            "filtered": filtered,
            "order": order,
            "server": backend_for(None).description,
        },
        parts=("summary", "results", "pages"),
    )


def lock_screen(
    name: str, lock: LockInfo | None, site: AdminSite, may: Mapping[str, bool]
) -> Screen:
    """Return the screen of one lock; blocks for some round trips if somebody waits for it.

    Args:
        name: The lock.
        lock: What is known of it; None: nobody holds it or waits for it.
        site: Where its pages are.
        may: What the user may end, as "may_release" and "may_cancel".

    Raises:
        LockBackendError: Redis could not be asked.
    """
    row = LockRow.of(lock, site) if lock else None
    queue = lock.waiters[:MOST_WAITERS_SHOWN] if lock else ()
    events = statistics.events(name)
    tree, whole = _tree(lock, site) if lock and lock.waiting else ((), True)
    facts = [fact for root in tree for fact in root.facts()]
    return Screen(
        now=lock.at if lock else time.time(),
        state=fingerprint(
            name,
            sorted(may.items()),
            row and (row.state, [holder.lease.ends for holder in row.holders]),
            [waiter.token for waiter in queue],
            facts,
            whole,
            [event.at for event in events],
        ),
        context={
            "lock": row,
            "queue": [PartyRow.of(waiter, lock.at) for waiter in queue] if lock else [],
            "more": lock.waiting - len(queue) if lock else 0,
            "tree": tree,
            "whole": whole,
            "events": [EventRow.of(event) for event in events],
            "counting": get_settings().statistics,
            **may,
            "cancel_url": lock_url(site, "cancel", name),
            "release_url": lock_url(site, "release", name),
            "history_url": lock_url(site, "history", name),
        },
        parts=("tools", "holders", "queue", "blocking", "events"),
    )


def _tree(lock: LockInfo, site: AdminSite) -> tuple[tuple[SessionRow, ...], bool]:
    """Return who blocks whom around a lock, and whether all locks were looked at for it."""
    names = inspection.names()
    whole = len(names) <= MOST_LOCKS_SEARCHED
    others = inspection.locks(names=[name for name in names if name != lock.name]) if whole else []
    shown = replace(lock, waiters=lock.waiters[:MOST_WAITERS_SHOWN])
    roots = trees(blocked([shown, *others]))
    rows = (SessionRow.of(root, lock.at, site) for root in roots if _concerns(root, lock.name))
    return tuple(rows), whole


def _concerns(node: Node, name: str) -> bool:
    """Whether somebody in the tree waits for the lock."""
    return node.lock == name or any(_concerns(below, name) for below in node.blocks)
