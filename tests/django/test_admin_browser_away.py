"""The admin says soon which is away: Redis, the site, or the browser's network."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.browsing import MARKS
from tests.django.admin_browsing import LOCKS, Visit, try_now

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = MARKS
SOON = 11_000
"""Milliseconds: it asks every 2 s, and says so within 3 s. One that gave requests up first would
take 12 s.
"""


def says(page: Page, text: str) -> None:
    page.wait_for_selector(f"[data-banner-text] >> text={text}", timeout=SOON)


def test_it_says_that_redis_hangs(visit: Visit, server: EmbeddedServer) -> None:
    page = visit.open(LOCKS)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        says(page, "Redis could not answer.")
        page.reload()
        says(page, "Redis could not answer.")
        visit.problems.clear()  # the browser complains about each status of 503
    finally:
        os.kill(server.pid, signal.SIGCONT)
    page.wait_for_selector("[data-state='live']", timeout=30_000)
    visit.problems.clear()


def never(_route: Route) -> None:
    """Let the site take a request and not answer."""


@pytest.mark.parametrize("way", ["silent", "refused"])
def test_it_says_that_the_site_is_away(visit: Visit, way: str) -> None:
    page = visit.open(LOCKS)
    answer: Callable[[Any], None] = never if way == "silent" else lambda route: route.abort()
    page.route("**/data/**", answer)
    says(page, "This site does not answer.")
    try_now(page, "**/data/**")
    visit.problems.clear()


def test_it_says_that_the_browser_has_no_network(visit: Visit) -> None:
    page = visit.open(LOCKS)
    page.context.set_offline(True)
    says(page, "Your browser has no network connection.")
    page.context.set_offline(False)
    page.wait_for_selector("[data-state='live']")
    visit.problems.clear()
