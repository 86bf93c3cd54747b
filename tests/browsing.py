"""Headless Chromium for tests and pictures: where it is, pages' problems, and what axe says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

V = TypeVar("V", bound="Visit")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)

# Looked for, and imported by the test that runs: this file is read by whoever collects tests.
if not (find_spec("axe_playwright_python") and find_spec("playwright")):
    REASON = "no browser test: the packages of the dependency group browser are not installed"
else:
    REASON = "" if CHROMIUM else "no browser test: neither chromium nor google-chrome is on PATH"

MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser for the length of the block."""
    from playwright.sync_api import sync_playwright

    # Playwright runs an event loop in this thread. So blocking locks are refused here, as Django's
    # database is.
    unsafe = mock.patch.dict(os.environ, {"DJANGO_ALLOW_ASYNC_UNSAFE": "true"})
    with unsafe, sync_playwright() as playwright:
        # Containers run as root and have a small /dev/shm.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


class Visit:
    """Pages of a site, and everything that the browser complained about."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser, self.address = browser, address
        self.problems: list[str] = []

    def open(self, path: str = "", **options: Any) -> Page:
        page = self._browser.new_context(**options).new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            # The admin has no icon; everything else that the browser complains about counts.
            lambda message: (
                self.problems.append(message.text)
                if message.type == "error" and "favicon" not in message.location["url"]
                else None
            ),
        )
        page.goto(f"{self.address}{path}")
        return page


@contextmanager
def without_problems(visit: V) -> Iterator[V]:
    """In the end the browser has complained about nothing."""
    yield visit
    assert [] == visit.problems


def log_in(page: Page, password: str, user: str = "admin") -> None:
    """Fill in the form that the page shows."""
    page.fill("#id_username", user)
    page.fill("#id_password", password)
    page.click("[type=submit]")


def serious(page: Page, context: str = "body") -> list[str]:
    """The rules of axe that the page, or a part of it, violates in a serious way, and where."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context=context).response["violations"]
    return [
        f"{rule['id']}: {[node['html'] for node in rule['nodes']]}"
        for rule in found
        if rule["impact"] in {"serious", "critical"}
    ]
