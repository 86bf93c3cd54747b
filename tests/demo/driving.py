"""The demo's site as a user starts it, for browsers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--seconds", "0.05", "--workers", "1", "--rounds", "1", "--table-seconds", "0"]
LAST_LINE = "Stop the demo with Ctrl-C.\n"
"""What a demo prints when its first comparison is over."""
ADDRESS = re.compile(r"Open (http://\S+)\nLog in as admin with the password (\S+)\n")


@dataclass(frozen=True)
class Site:
    """A demo that runs, and all that it has printed."""

    url: str
    password: str
    said: str


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The demo as a user starts it, after its first, very short comparison; its parameter: more arguments."""
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    more = getattr(request, "param", [])
    with subprocess.Popen(
        [sys.executable, "-u", "manage.py", "demo", *SHORT, *more],
        env={**kept, "DEMO_DATABASE": str(tmp_path / "demo.sqlite3")},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            said = ""
            for line in demo.stdout:
                said += line
                if line == LAST_LINE:
                    break
            url, password = ADDRESS.search(said).groups()  # type: ignore[union-attr]
            yield Site(url, password, said)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()


def see_how_it_ended(page: Page) -> None:
    """Wait for the end of the comparison that a page follows, and let the page show it."""
    page.wait_for_selector("#running-result:visible, .bank-ended", timeout=60_000)
    if page.is_visible("#running-result"):
        page.click("#running-result")
