"""The demo in a real browser: its site as a user starts it, and headless Chromium."""

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

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    REASON = "no browser test: the packages of the dependency group browser are not installed"
else:
    REASON = "" if BROWSER else "no browser test: neither chromium nor google-chrome is on PATH"

MARKS = [
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
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The demo as a user starts it, after its first, very short comparison; its parameter: more arguments."""
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    short = ["--seconds", "0.05", "--workers", "1", "--rounds", "1", "--table-seconds", "0"]
    command = [sys.executable, "-u", "manage.py", "demo", *short, *getattr(request, "param", [])]
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


def new_page(browser: Browser, problems: list[str], **options: Any) -> Page:
    """An empty page; what the browser complains about is added to `problems`."""
    page = browser.new_context(**options).new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        # The admin has no icon; everything else that the browser complains about counts.
        lambda message: (
            problems.append(message.text)
            if message.type == "error" and "favicon" not in message.location["url"]
            else None
        ),
    )
    return page


def serious(page: Page, context: str = "body") -> list[str]:
    """The rules of axe that the page, or a part of it, violates in a serious way, and where."""
    found = Axe().run(page, context=context).response["violations"]
    return [
        f"{rule['id']}: {[node['html'] for node in rule['nodes']]}"
        for rule in found
        if rule["impact"] in {"serious", "critical"}
    ]
