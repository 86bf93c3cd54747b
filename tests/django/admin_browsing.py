"""The admin's site in a browser: its server, its holders and waiters, the browser's complaints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests import browsing
from tests.browsing import log_in, without_problems
from tests.django.serving import served
from tests.faults.processes import Worker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LOCKS = "/admin/redis_locks/lock/"


class Visit(browsing.Visit):
    """Pages of the admin, for whoever has logged in."""

    def open(self, path: str = "", user: str = "admin", **options: Any) -> Page:
        page = super().open(f"/admin/login/?{urlencode({'next': path})}", **options)
        page.set_default_timeout(15_000)
        log_in(page, "password", user)
        page.wait_for_selector("[data-state='live']")
        return page


def try_now(page: Page, url: str) -> None:
    """Press "Try now" on a page without news from `url`, let the site answer, await the news.

    The site stays away until the page has asked: a page that recovers by itself takes its button
    away.
    """
    asked: list[Route] = []

    def keep(route: Route) -> None:
        asked.append(route)

    page.route(url, keep)
    with page.expect_request(url):
        page.click("[data-retry]")
    page.route(url, lambda route: route.continue_())
    for route in asked:
        route.continue_()
    page.wait_for_selector("[data-state='live']", timeout=60_000)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as started:
        yield started


@pytest.fixture(scope="module")
def site(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(server.url, tmp_path_factory.mktemp("site") / "db.sqlite3") as address:
        yield address


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    with without_problems(Visit(browser, site)) as made:
        yield made


@pytest.fixture
def hire(server: EmbeddedServer) -> Iterator[Callable[[], Worker]]:
    """Start processes that hold and wait."""
    hired: list[Worker] = []

    def start() -> Worker:
        hired.append(Worker(server.url))
        return hired[-1].ready()

    yield start
    for worker in hired:
        worker.close()


@pytest.fixture
def page(visit: Visit, hire: Callable[[], Worker], name: str) -> Page:
    """A list of one lock, which another process holds."""
    hire().ask("acquire", name=name, lease=60)
    return visit.open(f"{LOCKS}?q={name}")
