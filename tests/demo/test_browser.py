"""The comparison page in a real browser: start, progress, charts in light and dark, no policy violation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from demo_project.bank.strategies import STRATEGIES, available
from tests.browsing import MARKS, log_in, new_page, serious
from tests.demo.driving import Site, see_how_it_ended

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = MARKS


def open_page(browser: Browser, site: Site, problems: list[str], **options: Any) -> Page:
    page = new_page(browser, problems, **options)
    page.goto(site.url)
    page.click("nav >> text=Comparison")
    log_in(page, site.password)
    page.wait_for_selector("html[data-charts-drawn='2']")
    return page


def figures(page: Page) -> int:
    return page.locator("#all-figures tbody tr").count()


def start(page: Page, **values: str) -> None:
    if not page.is_visible("#start-form"):
        page.click("#start-box summary")
    for field, value in values.items():
        page.fill(f"#id_{field}", value)
    page.click("#start-form [type=submit]")
    page.wait_for_selector("#running progress")


def test_a_comparison_is_started_followed_and_drawn(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = open_page(browser, site, problems)
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
    assert [] == problems


@pytest.mark.long
@pytest.mark.timeout(400)
def test_axe_finds_no_serious_violation_in_light_and_dark(browser: Browser, site: Site) -> None:
    # axe itself does what the policy forbids.
    page = open_page(browser, site, [], bypass_csp=True)
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


def test_following_ends_with_the_run_s_row_and_with_the_session(
    browser: Browser, site: Site
) -> None:
    page = open_page(browser, site, [])
    for last, said in (
        (delete_the_run, "it was deleted"),
        (lambda page: page.context.clear_cookies(), "you are logged out"),
    ):
        page.goto(f"{site.url}admin/bank/comparison/")
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


def delete_the_run(page: Page) -> None:
    address = page.locator("#result_list tbody tr a").first.get_attribute("href") or ""
    other = page.context.new_page()
    other.goto(f"{page.url.partition('/admin')[0]}{address.replace('change', 'delete')}")
    other.click("#content form [type=submit]")
    other.wait_for_selector(".messagelist .success")
    other.close()
