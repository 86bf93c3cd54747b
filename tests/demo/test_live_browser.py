"""The live bank in a real browser: with the keyboard, on any screen, light and dark, and as axe sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browsing import MARKS, new_page, serious
from tests.demo.driving import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    *MARKS,
    pytest.mark.parametrize(
        "site", [["--strategies", "redis_lock", "--accounts", "hot"]], indirect=True, ids=["quick"]
    ),
]

PHONE = {"width": 390, "height": 844}
WIDEST = "document.documentElement.scrollWidth"


def test_money_is_sent_and_raced_with_the_keyboard(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(browser, problems, viewport={"width": 360, "height": 800})
    page.goto(site.url)
    page.focus("#transfer input[name$=amount]")
    page.keyboard.press("Control+A")
    page.keyboard.type("12.34")
    page.keyboard.press("Enter")
    page.wait_for_selector(".messages >> text=alice paid bob 12.34.")
    assert "987.66" in page.inner_text("#accounts")
    assert page.evaluate(WIDEST) == 360

    page.focus("#race input[value=redis_lock]")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/race/.+#result"))
    assert "Every cent is where it should be." in page.inner_text("#result")
    page.focus("summary")
    page.keyboard.press("Enter")
    assert page.locator("#result details tbody tr").count() == 100
    assert page.evaluate(WIDEST) == 360
    assert problems == []


def test_balances_follow_what_happens_elsewhere_and_a_lost_network_is_said(
    browser: Browser, site: Site
) -> None:
    problems: list[str] = []
    page = new_page(browser, problems, bypass_csp=True)
    page.goto(site.url)
    other = new_page(browser, problems)
    other.goto(site.url)
    other.click("#transfer button")
    page.wait_for_selector("#accounts >> text=999.00")
    assert problems == []
    page.context.set_offline(True)
    page.wait_for_selector("[data-banner] >> text=Your browser has no network connection.")
    assert serious(page) == []
    page.context.set_offline(False)
    page.wait_for_selector("[data-state='live']")  # it asks at once
    assert not page.is_visible("[data-banner]")


def test_no_page_loads_again_under_a_keyboard(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(browser, problems)
    page.goto(f"{site.url}problems/")
    page.click("text=Lose a reply")
    page.wait_for_selector("#run-title >> text=under way")
    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))
    page.focus("text=Cut the connection")
    page.wait_for_selector("#course-redis_lock >> text=Every cent is right.", timeout=60_000)
    assert "Cut the connection" == page.evaluate("document.activeElement.textContent")
    page.wait_for_selector("[data-state='over']")
    assert "the result is here" in (page.text_content("[data-said]") or "")
    page.goto(f"{site.url}failover/")
    page.click("text=Start three workers")
    page.wait_for_selector(".state.working", timeout=60_000)
    loads.clear()
    page.focus("#kill-3")
    page.wait_for_selector("text=works: step 3 of 4", timeout=60_000)
    # Its part of the page was replaced several times.
    assert "kill-3" == page.evaluate("document.activeElement.id")
    page.wait_for_selector("[data-state='over']", timeout=60_000)
    assert [] == loads
    assert problems == []


@pytest.mark.parametrize(
    ("path", "button", "shown"),
    [
        ("", "#transfer button", ".messages"),
        ("tellers/", "text=Open the branch", "#branch >> text=3 of 3"),
        ("failover/", "text=Start three workers", ".state.working"),
        ("ledger/", "text=Lose replies and kill workers", "#way-redis_lock >> text=each once"),
        ("problems/", "text=Cut the connection", "#course-redis_lock >> text=Every cent is right."),
    ],
)
def test_a_page_fits_a_phone_and_axe_finds_nothing(
    browser: Browser, site: Site, path: str, button: str, shown: str
) -> None:
    problems: list[str] = []
    # axe itself does what the policy forbids.
    page = new_page(browser, problems, viewport=PHONE, bypass_csp=True)
    page.goto(f"{site.url}{path}")
    page.focus(button)
    page.keyboard.press("Enter")
    page.wait_for_selector(shown, timeout=60_000)
    check_in_both_schemes(page)
    if path:
        page.wait_for_selector("[data-state='over']", timeout=60_000)
    else:
        page.click("#race button")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    check_in_both_schemes(page)
    assert [] == problems


def check_in_both_schemes(page: Page) -> None:
    assert page.evaluate(WIDEST) == 390
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert [] == serious(page)
