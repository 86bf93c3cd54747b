"""The comparison page in a real browser: start, progress, charts in light and dark, no policy violation."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo_project.bank.strategies import available

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    REASON = "no browser test: the packages of the dependency group browser are not installed"
else:
    REASON = "" if BROWSER else "no browser test: neither chromium nor google-chrome is on PATH"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]


@dataclass(frozen=True)
class Site:
    url: str
    password: str


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The demo as a user starts it, after its first, very short comparison."""
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    command = [
        sys.executable,
        "-u",
        "manage.py",
        "demo",
        "--seconds",
        "0.05",
        "--workers",
        "1",
        "--rounds",
        "1",
    ]
    with subprocess.Popen(
        command,
        env={**kept, "DEMO_DATABASE": str(tmp_path / "demo.sqlite3")},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            url = password = ""
            for line in demo.stdout:
                if found := re.search(r"password (\S+)", line):
                    password = found[1]
                if found := re.search(r"Open (http://\S+)", line):
                    url = found[1]
                if "Quit the server" in line:
                    break
            assert url
            yield Site(url, password)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Containers run as root and have a small /dev/shm.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield launched
        launched.close()


def open_page(browser: Browser, site: Site, problems: list[str], **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        # The demo has no icon; everything else that the browser complains about counts.
        lambda message: (
            problems.append(message.text)
            if message.type == "error" and "favicon" not in message.location["url"]
            else None
        ),
    )
    page.goto(site.url)
    page.fill("#id_username", "admin")
    page.fill("#id_password", site.password)
    page.click("[type=submit]")
    page.wait_for_selector("html[data-charts-drawn='12']")
    return page


def color_of(page: Page) -> str:
    return str(
        page.evaluate(
            "Chart.getChart('chart-hot-transfers_per_second').options.scales.x.ticks.color"
        )
    )


def figures(page: Page) -> int:
    return page.locator("#all-figures tbody tr").count()


def start(page: Page, **values: str) -> None:
    for field, value in values.items():
        page.fill(f"#id_{field}", value)
    page.click("#start-form [type=submit]")
    page.wait_for_selector("#running progress")


def test_a_comparison_is_started_followed_cancelled_and_drawn(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = open_page(browser, site, problems)
    assert figures(page) == 2 * len(available())

    start(page, workers="1 2", seconds="0.1", rounds="1")
    page.click("#start-form [type=submit]")
    assert "already running" in page.inner_text(".messagelist .error")
    # The run does not belong to the page: it goes on when that is opened again.
    page.goto(page.url)
    page.wait_for_function(
        "() => document.querySelector('#running-text').textContent.includes('left; round')"
    )

    # The page follows the run by itself and shows its figures when it has finished.
    page.wait_for_selector("#findings-title >> text=Comparison 2", timeout=60_000)
    page.wait_for_selector("html[data-charts-drawn='12']")
    assert page.locator("#running").count() == 0
    assert figures(page) == 4 * len(available())
    assert page.locator("#result_list tbody tr").count() == 2
    shape = "[Chart.getChart('chart-hot-p99_ms').data.labels, Chart.getChart('chart-hot-p99_ms').data.datasets.length]"
    assert page.evaluate(shape) == [[1, 2], len(available())]
    label = page.locator("#chart-spread-p99_ms").get_attribute("aria-label") or ""
    assert "redis_lock" in label

    page.click("#findings-title a")
    page.wait_for_selector("html[data-charts-drawn='12']")
    assert figures(page) == 4 * len(available())
    with page.expect_download() as download:
        page.click("text=Export as CSV")
    assert download.value.suggested_filename == "comparison-2.csv"
    page.click("#repeat")
    assert page.input_value("#id_workers") == "1 2"

    start(page, workers="1", seconds="9", rounds="2")
    page.click("#running button")
    page.wait_for_selector(".bank-ended")
    assert "ended as cancelled after 0 of" in page.inner_text(".bank-ended")
    assert problems == []


def test_the_charts_follow_the_theme_and_a_narrow_screen(browser: Browser, site: Site) -> None:
    problems: list[str] = []
    page = open_page(browser, site, problems, color_scheme="light")
    light = color_of(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        # A function, as the page's policy forbids evaluating text.
        "(light) => Chart.getChart('chart-hot-transfers_per_second').options.scales.x.ticks.color !== light",
        arg=light,
    )
    assert color_of(page) != light

    page.click("#strategy-optimistic summary")
    code = page.locator("#strategy-optimistic pre")
    assert "def optimistic(" in code.inner_text()
    colors = "(code) => [...code.querySelectorAll('.hl-k, .hl-nf')].map((e) => getComputedStyle(e).color)"
    assert len(set(code.evaluate(colors))) == 2

    page.set_viewport_size({"width": 400, "height": 800})
    # The wide table scrolls by itself; nothing of ours makes the page wider than the screen.
    widest = """() => Math.max(...[...document.querySelectorAll(".bank-page, .bank-page > *, .bank-page canvas")]
        .map((element) => element.getBoundingClientRect().right))"""
    page.wait_for_function(f"(limit) => ({widest})() <= limit", arg=400)
    assert problems == []


@pytest.mark.long
def test_axe_finds_no_serious_violation_in_light_and_dark(browser: Browser, site: Site) -> None:
    # axe itself does what the policy forbids.
    page = open_page(browser, site, [], bypass_csp=True)
    page.evaluate(
        "document.querySelectorAll('.bank-page details').forEach((e) => { e.open = true; })"
    )
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        results = Axe().run(page, context=".bank-page")
        found += [
            f"{scheme} {violation['id']}: {[node['html'] for node in violation['nodes']]}"
            for violation in results.response["violations"]
            if violation["impact"] in {"serious", "critical"}
        ]
    assert found == []
