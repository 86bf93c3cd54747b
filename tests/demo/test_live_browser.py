"""The live bank in a real browser: with the keyboard, on any screen, light and dark, and as axe sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browsing import MARKS, new_page, serious
from tests.demo.driving import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    *MARKS,
    pytest.mark.parametrize(
        "site", [["--strategies", "redis_lock", "--accounts", "hot"]], indirect=True, ids=["quick"]
    ),
]

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


def test_all_three_race_and_a_slow_race_shows_its_queue(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(browser, problems, viewport={"width": 390, "height": 800})
    page.goto(site.url)
    page.click("#race-all button")
    page.wait_for_url(re.compile("/race/all/.+#rush"))
    assert "Nothing lost" in page.inner_text("#rush section:has(#till-redis_lock)")
    assert page.evaluate(WIDEST) == 390
    page.check("#race input[name$=slow_motion]")
    page.click("#race button")
    page.wait_for_selector("#accounts >> text=waiting")
    page.wait_for_selector("#result >> text=Every cent is where it should be.", timeout=60_000)
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tellers_fit_a_phone_and_axe_finds_nothing(
    browser: Browser, site: Site, scheme: str
) -> None:
    problems: list[str] = []
    page = new_page(
        browser,
        problems,
        viewport={"width": 390, "height": 844},
        color_scheme=scheme,
        bypass_csp=True,
    )
    page.goto(f"{site.url}tellers/")
    page.click("text=Open the branch")
    page.wait_for_selector("#branch >> text=3 of 3", timeout=60_000)
    page.wait_for_selector(".tellers >> text=waiting as number 2")
    # A page that is opened says the times at once.
    page.reload(wait_until="domcontentloaded")
    times = (
        "[...document.querySelectorAll('.tellers [data-since]')].map((each) => each.textContent)"
    )
    assert all(page.evaluate(times))
    assert serious(page) == []
    page.click(".tellers tr:has(.working) button")
    page.wait_for_selector(".state.dead")
    page.click("#permits-5")
    page.wait_for_selector("#permits-5[aria-current]")
    page.wait_for_selector("[data-state='over']", timeout=60_000)
    assert page.evaluate(WIDEST) == 390
    assert serious(page) == []
    assert "Never more than" in page.inner_text(".verdict")
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_where_workers_take_over(
    browser: Browser, site: Site, scheme: str
) -> None:
    page = new_page(
        browser,
        [],
        viewport={"width": 390, "height": 844},
        color_scheme=scheme,
        bypass_csp=True,
    )
    page.goto(f"{site.url}failover/")
    assert serious(page) == []
    page.click("text=Start three workers")
    page.wait_for_selector(".state.working", timeout=60_000)
    assert serious(page) == []
    page.wait_for_selector("[data-state='over']", timeout=60_000)
    assert serious(page) == []
    assert page.evaluate(WIDEST) == 390


def test_the_ledger_fits_a_phone_and_axe_finds_nothing(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = new_page(
        browser,
        problems,
        viewport={"width": 390, "height": 844},
        color_scheme="dark",
        bypass_csp=True,
    )
    page.goto(f"{site.url}ledger/")
    page.focus("text=Lose replies and kill workers")
    page.keyboard.press("Enter")
    page.wait_for_selector("#way-redis_lock >> text=each once", timeout=60_000)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.evaluate(WIDEST) == 390
    assert serious(page) == []
    page.emulate_media(color_scheme="light")
    assert serious(page) == []
    assert problems == []


def test_the_page_of_problems_fits_a_phone_and_shows_two_timelines(
    browser: Browser, site: Site
) -> None:
    problems: list[str] = []
    page = new_page(browser, problems, viewport={"width": 390, "height": 844}, bypass_csp=True)
    page.goto(f"{site.url}problems/")
    page.click("text=Cut the connection")
    page.wait_for_selector("#course-redis_lock >> text=Every cent is right.", timeout=60_000)
    assert page.locator("svg.timeline").count() == 2
    assert page.evaluate(WIDEST) == 390
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page) == []
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation_in_the_bank(
    browser: Browser, site: Site, scheme: str
) -> None:
    # axe itself does what the policy forbids.
    page = new_page(browser, [], color_scheme=scheme, bypass_csp=True)
    page.goto(site.url)
    found = serious(page)
    page.fill("#transfer input[name$=amount]", "0")
    page.click("#transfer button")
    page.wait_for_selector(".errorlist")
    found += serious(page)
    page.check("#race input[value=unprotected]")
    page.click("#race button")
    page.click("summary")
    found += serious(page)
    assert found == []
