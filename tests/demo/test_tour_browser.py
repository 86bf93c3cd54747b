"""The whole tour that `manage.py demo` prints and README describes, walked in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo_project.bank.strategies import label_of
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
"""Milliseconds for what takes a second or two, and far longer while tests of other workers have the processors."""


@pytest.mark.timeout(600)
def test_the_tour_can_be_walked(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(browser, problems)
    bank, problems_page, ledger, failover, tellers, comparison, start, locks = re.findall(
        r"^ \d\. (\S+)$", site.said, re.MULTILINE
    )
    walk_through_the_bank(page, bank)
    freeze_a_holder(page, problems_page)
    reconcile_the_ledger(page, ledger)
    kill_a_worker(page, failover)
    crash_a_teller(page, tellers)
    page.goto(comparison)
    log_in(page, site.password)
    read_the_comparison(page)
    page.goto(start)
    start_a_run(page)
    watch_the_locks(page, locks)
    page.goto(comparison)
    end_the_run(page)
    take_the_figures_along(page)
    assert [] == problems


def walk_through_the_bank(page: Page, address: str) -> None:
    page.goto(address)
    page.click("#transfer button")
    assert "alice paid bob 1.00." in page.inner_text(".messages")
    for strategy, waited in (
        ("redis_lock", "The queue was longest when"),
        ("optimistic", "A transfer that finds the accounts changed starts again."),
        ("unprotected", "The last write wins"),
    ):
        page.check(f"#race input[value={strategy}]")
        page.click("#race button")
        page.wait_for_selector(f"#result-title >> text={label_of(strategy)}", timeout=LONG)
        result = page.inner_text("#result")
        assert "100 of 100" in result
        assert waited in result
        # What becomes of the money without a lock is a matter of luck.
        if strategy != "unprotected":
            assert "Every cent is where it should be." in result


def freeze_a_holder(page: Page, address: str) -> None:
    page.goto(address)
    page.click("text=Freeze the holder")
    page.wait_for_selector("#course-book >> text=Overdrawn by 30.00", timeout=LONG)
    assert "Every cent is right" in page.inner_text("#course-redis_lock")
    for course in ("book", "redis_lock"):
        assert 2 == page.locator(f"#course-{course} svg rect.holds").count()


def reconcile_the_ledger(page: Page, address: str) -> None:
    page.goto(address)
    page.click("text=Lose replies and kill workers")
    page.wait_for_selector("#way-redis_lock >> text=120 of 120, each once", timeout=LONG)
    assert "duplicates" in page.inner_text("#way-transaction .till")
    page.click("#way-redis_lock summary:has-text('The ledger')")
    assert page.locator("#way-redis_lock .entries tbody tr").count() == 120


def kill_a_worker(page: Page, address: str) -> None:
    page.goto(address)
    page.click("text=Start three workers")
    page.wait_for_selector("#job >> text=Attempt 1 of 3", timeout=LONG)
    page.click(".worker:has(.state.working) button:has-text('Kill')")
    page.wait_for_selector("#job >> text=DONE by attempt 2", timeout=LONG)
    assert 1 == page.locator(".state.dead").count()


def crash_a_teller(page: Page, address: str) -> None:
    page.goto(address)
    page.click("text=Open the branch")
    page.wait_for_selector("#branch >> text=3 of 3", timeout=LONG)
    page.click("#permits-5")
    page.click(".tellers tr:has(.working) button")
    page.wait_for_selector(".state.dead")
    page.wait_for_selector("#branch-title >> text=closed", timeout=LONG)
    assert "60" == page.inner_text(".facts div:has-text('Customers served') dd")


def read_the_comparison(page: Page) -> None:
    page.wait_for_selector("html[data-charts-drawn='2']", timeout=LONG)
    assert "conserved the money to the cent" in page.inner_text(".bank-verdict")
    page.click("summary:has-text('Table of Throughput') >> nth=0")
    assert "redis_lock" in page.inner_text("section:has(#title-1) table >> nth=0")
    page.click("#tab-methods")
    page.click("#strategy-redis_lock summary")
    assert "def explicit_lock(" in page.inner_text("#strategy-redis_lock pre")
    page.click("#tab-book")
    rows = page.locator("#book-table tbody tr").all_inner_texts()
    assert len(rows) in (12, 16)  # a server without a command to compare and delete has three locks
    lua = re.compile(r"Lua.*\t10\t[\d,]+\t[\d,]+\t\S+\t.+\t96,871\t33,990\t\+137%")
    assert any(map(lua.search, rows)), rows
    page.click("#tab-advice")
    assert 5 == page.locator("#advice dt").count()


def start_a_run(page: Page) -> None:
    page.fill("#id_workers", "2 3")
    page.fill("#id_seconds", "2")
    page.fill("#id_table_seconds", "0")
    page.click("#start-form [type=submit]")
    page.wait_for_selector("#running progress")
    # It does not belong to the page.
    page.reload()
    page.wait_for_selector(
        "#running-text >> text=/[1-9]\\d* of \\d+ measurements; about .* left; round 1/"
    )


def watch_the_locks(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("[data-rows] tr:has-text('comparison by admin')")
    page.click("[data-rows] a:has-text('bank:comparison')")
    page.wait_for_selector("[data-state='live'] >> text=/Held by/")


def end_the_run(page: Page) -> None:
    page.click("#running button")
    see_how_it_ended(page)
    page.wait_for_selector(".bank-ended")
    assert "admin cancelled Comparison" in page.inner_text(".bank-ended")


def take_the_figures_along(page: Page) -> None:
    page.click("#tab-how")
    with page.expect_download() as download:
        page.click("text=Export as JSON")
    report = json.loads(Path(download.value.path()).read_text())
    assert len(report["table_11_2"]) in (12, 16)
    page.click("#repeat")
    page.wait_for_url(re.compile("/start/"))
    assert ["redis_lock", "optimistic"] == page.locator(
        "#start-form input[name=strategies]:checked"
    ).evaluate_all("(found) => found.map((input) => input.value)")
