"""The bank in a real browser: its tour, the comparison, and each page.

Each page by keyboard, on a phone, in light and dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from demo_project.bank.strategies import STRATEGIES, available
from tests import browsing
from tests.browsing import MARKS, log_in, serious, without_problems
from tests.demo.driving import Site, see_how_it_ended

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = MARKS


def with_arguments(*arguments: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("site", [arguments], indirect=True, ids=["site"])


QUICK = with_arguments("--strategies", "redis_lock", "--accounts", "hot")


class Visit(browsing.Visit):
    """Pages of a demo."""

    def __init__(self, browser: Browser, site: Site) -> None:
        super().__init__(browser, site.url)
        self.site = site

    def comparison(self, **options: Any) -> Page:
        page = self.open(**options)
        page.click("nav >> text=Comparison")
        log_in(page, self.site.password)
        page.wait_for_selector("html[data-charts-drawn='2']")
        return page


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Visit]:
    with without_problems(Visit(browser, site)) as made:
        yield made


def figures(page: Page) -> int:
    return page.locator("#all-figures tbody tr").count()


def start(page: Page, **values: str) -> None:
    if not page.is_visible("#start-form"):
        page.click("#start-box summary")
    for field, value in values.items():
        page.fill(f"#id_{field}", value)
    page.click("#start-form [type=submit]")
    page.wait_for_selector("#running progress")


def test_a_comparison_is_started_followed_and_drawn(visit: Visit) -> None:
    page = visit.comparison()
    assert figures(page) == 2 * len(available())

    start(page, workers="1 2", seconds="0.1", rounds="1")
    page.click("#start-box summary")
    page.click("#start-form [type=submit]")
    assert "already running" in page.inner_text(".messagelist .error")
    # The run does not belong to the page: it goes on when that is opened again.
    page.goto(page.url)
    page.wait_for_function(
        "() => document.querySelector('#running-text').textContent.includes('left; round')"
    )

    # The page follows the run by itself, and does not load again under a keyboard when it has
    # finished.
    page.click("#start-box summary")
    page.fill("#id_seconds", "0.75")
    page.wait_for_selector("#running-result:visible", timeout=60_000)
    assert "Comparison 2 has ended" == page.inner_text("#running-title")
    assert "Comparison 2 has ended" == page.inner_text("#running-said")
    assert "0.75" == page.input_value("#id_seconds")
    assert "id_seconds" == page.evaluate("document.activeElement.id")
    see_how_it_ended(page)
    page.wait_for_selector("#findings-title >> text=Comparison 2")
    page.wait_for_selector("html[data-charts-drawn='2']")
    assert figures(page) == 4 * len(STRATEGIES)
    page.click("text=Latency, slowest 1%")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    title = "Chart.getChart('chart-hot-p99_ms').options.plugins.tooltip.callbacks.title"
    assert ["1 worker", "2 workers"] == page.evaluate(
        f"() => [0, 1].map((x) => {title}([{{ parsed: {{ x }} }}]))"
    )
    chart = "Chart.getChart('chart-hot-p99_ms').data"
    assert [1, 2] == page.evaluate(f"{chart}.labels")
    assert 6 == page.evaluate(f"{chart}.datasets.length")
    page.check("text=Draw all methods >> visible=true")
    assert len(STRATEGIES) == page.evaluate(f"{chart}.datasets.length")

    page.click("#tab-how")
    with page.expect_download() as download:
        page.click("text=Export as CSV")
    assert "comparison-2.csv" == download.value.suggested_filename
    page.click("#repeat")
    assert "1 2" == page.input_value("#id_workers")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_axe_finds_no_serious_violation_in_light_and_dark(visit: Visit) -> None:
    # axe itself does what the policy forbids.
    page = visit.comparison(bypass_csp=True)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        # Loaded anew, because the admin's links take a moment to change their colour.
        page.reload()
        page.wait_for_selector("html[data-charts-drawn='2']")
        # The second time with all panels at once, as they are without the script.
        for opened in (
            "'.bank-page details').forEach((e) => { e.open = true; })",
            "'.bank-panel').forEach((e) => { e.hidden = false; })",
        ):
            page.evaluate(f"document.querySelectorAll({opened}")
            found += [(scheme, violation) for violation in serious(page, context=".bank-page")]
    assert [] == found


def test_following_ends_with_the_run_s_row_and_with_the_session(visit: Visit) -> None:
    page = visit.comparison()
    for last, said in (
        (delete_the_run, "it was deleted"),
        (lambda page: page.context.clear_cookies(), "you are logged out"),
    ):
        page.goto(f"{visit.address}admin/bank/comparison/")
        start(page, workers="1", seconds="9", rounds="2")
        last(page)
        page.wait_for_selector(f"#running-text >> text=/No more news: {said}/")
        # A tab that is hidden and seen again must not begin anew.
        planned = """() => {
            let planned = 0;
            window.setTimeout = () => { planned += 1; };
            document.dispatchEvent(new Event("visibilitychange"));
            return planned;
        }"""
        assert page.evaluate(planned) == 0
    visit.problems.clear()  # the browser complains about what there is no more


def delete_the_run(page: Page) -> None:
    address = page.locator("#result_list tbody tr a").first.get_attribute("href") or ""
    other = page.context.new_page()
    other.goto(f"{page.url.partition('/admin')[0]}{address.replace('change', 'delete')}")
    other.click("#content form [type=submit]")
    other.wait_for_selector(".messagelist .success")
    other.close()


PHONE = {"width": 390, "height": 844}
WIDEST = "document.documentElement.scrollWidth"


@QUICK
def test_money_is_sent_and_raced_with_the_keyboard(visit: Visit) -> None:
    page = visit.open(viewport={"width": 360, "height": 800})
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


@QUICK
def test_balances_follow_what_happens_elsewhere_and_a_lost_network_is_said(visit: Visit) -> None:
    page = visit.open(bypass_csp=True)
    visit.open().click("#transfer button")
    page.wait_for_selector("#accounts >> text=999.00")
    assert visit.problems == []
    page.context.set_offline(True)
    page.wait_for_selector("[data-banner] >> text=Your browser has no network connection.")
    assert serious(page) == []
    page.context.set_offline(False)
    page.wait_for_selector("[data-state='live']")  # it asks at once
    assert not page.is_visible("[data-banner]")
    visit.problems.clear()  # the browser complains about requests without a network


@QUICK
def test_no_page_loads_again_under_a_keyboard(visit: Visit) -> None:
    page = visit.open("problems/")
    page.click("text=Lose a reply")
    page.wait_for_selector("#run-title >> text=under way")
    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))
    page.focus("text=Cut the connection")
    page.wait_for_selector("#course-redis_lock >> text=Every cent is right.", timeout=60_000)
    assert "Cut the connection" == page.evaluate("document.activeElement.textContent")
    page.wait_for_selector("[data-state='over']")
    assert "the result is here" in (page.text_content("[data-said]") or "")
    page.goto(f"{visit.address}failover/")
    page.click("text=Start three workers")
    page.wait_for_selector(".state.working", timeout=60_000)
    loads.clear()
    page.focus("#kill-3")
    page.wait_for_selector("text=works: step 3 of 4", timeout=60_000)
    # Its part of the page was replaced several times.
    assert "kill-3" == page.evaluate("document.activeElement.id")
    page.wait_for_selector("[data-state='over']", timeout=60_000)
    assert [] == loads


LONG = 150_000
"""Milliseconds for what takes a second or two, and far longer while tests of other workers have the
processors.
"""


STATIONS = {
    "": ("#transfer button", ".messages >> text=alice paid bob 1.00."),
    "problems/": ("text=Freeze the holder", "#course-book >> text=Overdrawn by 30.00"),
    "ledger/": (
        "text=Lose replies and kill workers",
        "#way-redis_lock >> text=120 of 120, each once",
    ),
    "failover/": ("text=Start three workers", "#job >> text=DONE by attempt 1"),
    "tellers/": ("text=Open the branch", "#branch >> text=3 of 3"),
}
"""What to press on the pages, in the order of the tour, and what is seen then."""


@QUICK
@pytest.mark.parametrize("path", STATIONS)
def test_a_page_fits_a_phone_and_axe_finds_nothing(visit: Visit, path: str) -> None:
    # axe itself does what the policy forbids.
    page = visit.open(path, viewport=PHONE, bypass_csp=True)
    button, seen = STATIONS[path]
    page.focus(button)
    page.keyboard.press("Enter")
    page.wait_for_selector(seen, timeout=60_000)
    check_in_both_schemes(page)
    if path:
        page.wait_for_selector("[data-state='over']", timeout=60_000)
    else:
        page.click("#race button")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    check_in_both_schemes(page)


def check_in_both_schemes(page: Page) -> None:
    assert page.evaluate(WIDEST) == 390
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert [] == serious(page)


@with_arguments("--strategies", "optimistic", "redis_lock", "--table-seconds", "0.05")
@pytest.mark.timeout(600)
def test_the_tour_can_be_walked(visit: Visit) -> None:
    page = visit.open()
    told = re.findall(r"^ \d\. (\S+)$", visit.site.said, re.MULTILINE)
    *pages, comparison, start, locks = told
    for address, (path, (button, seen)) in zip(pages, STATIONS.items(), strict=True):
        assert address == f"{visit.address}{path}"
        page.goto(address)
        page.click(button)
        page.wait_for_selector(seen, timeout=LONG)
    page.goto(comparison)
    log_in(page, visit.site.password)
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
