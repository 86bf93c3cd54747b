"""The whole tour that `manage.py demo` prints and README describes, walked in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browsing import MARKS, log_in, new_page
from tests.demo.driving import Site, see_how_it_ended

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    *MARKS,
    pytest.mark.parametrize(
        "site",
        [["--strategies", "optimistic", "redis_lock", "--table-seconds", "0.05"]],
        indirect=True,
        ids=["with-table"],
    ),
]


LONG = 150_000
"""Milliseconds for what takes a second or two, and far longer while tests of other workers have the
processors.
"""


STATIONS = (
    ("#transfer button", ".messages >> text=alice paid bob 1.00."),
    ("text=Freeze the holder", "#course-book >> text=Overdrawn by 30.00"),
    ("text=Lose replies and kill workers", "#way-redis_lock >> text=120 of 120, each once"),
    ("text=Start three workers", "#job >> text=DONE by attempt 1"),
    ("text=Open the branch", "#branch >> text=3 of 3"),
)
"""What to press on the pages that come first, and what is seen then."""


@pytest.mark.timeout(600)
def test_the_tour_can_be_walked(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(browser, problems)
    *pages, comparison, start, locks = re.findall(r"^ \d\. (\S+)$", site.said, re.MULTILINE)
    for address, (button, seen) in zip(pages, STATIONS, strict=True):
        page.goto(address)
        page.click(button)
        page.wait_for_selector(seen, timeout=LONG)
    page.goto(comparison)
    log_in(page, site.password)
    read_the_comparison(page)
    page.goto(start)
    page.fill("#id_workers", "2 3")
    page.fill("#id_seconds", "2")
    page.click("#start-form [type=submit]")
    page.wait_for_selector("#running progress")
    page.goto(locks)
    page.click("[data-rows] tr:has-text('comparison by admin') a:has-text('bank:comparison')")
    page.wait_for_selector("[data-state='live'] >> text=/Held by/")
    page.goto(comparison)
    page.click("#running button")
    see_how_it_ended(page)
    page.wait_for_selector(".bank-ended")
    assert "admin cancelled Comparison" in page.inner_text(".bank-ended")
    assert [] == problems


def read_the_comparison(page: Page) -> None:
    page.wait_for_selector("html[data-charts-drawn='2']", timeout=LONG)
    assert "conserved the money to the cent" in page.inner_text(".bank-verdict")
    page.click("#tab-book")
    rows = page.locator("#book-table tbody tr").all_inner_texts()
    assert len(rows) in (12, 16)  # a server without a command to compare and delete has three locks
    lua = re.compile(r"Lua.*\t10\t[\d,]+\t[\d,]+\t\S+\t.+\t96,871\t33,990\t\+137%")
    assert any(map(lua.search, rows)), rows
    page.click("#tab-advice")
    assert 5 == page.locator("#advice dt").count()
