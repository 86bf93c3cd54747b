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


def test_balances_follow_what_happens_elsewhere_and_a_lost_site_is_said(
    browser: Browser, site: Site
) -> None:
    problems: list[str] = []
    page = new_page(browser, problems)
    page.goto(site.url)
    other = new_page(browser, problems)
    other.goto(site.url)
    other.click("#transfer button")
    page.wait_for_selector("#accounts >> text=999.00")
    assert problems == []
    page.context.set_offline(True)
    page.wait_for_selector("#news >> text=No news of the balances")
    page.context.set_offline(False)
    page.wait_for_selector("#news:empty", state="attached")


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
