"""The demo as a user starts it, on a database of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.children import ROOT, run_python

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHORT = ["--seconds", "0.05", "--workers", "1", "--rounds", "1", "--table-seconds", "0"]
LAST_LINE = "Stop the demo with Ctrl-C."
"""What a demo prints when its first comparison is over."""
ADDRESS = re.compile(r"Open (http://\S+)\nLog in as admin with the password (\S+)\n")


@dataclass(frozen=True)
class Site:
    """A demo that runs, and all that it has printed."""

    process: subprocess.Popen[str]
    url: str
    password: str
    said: str


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a process that uses the demo's own settings and a new database."""
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    return {**kept, "DEMO_DATABASE": str(tmp_path / "demo.sqlite3"), "PYTHONUNBUFFERED": "1"}


def manage(
    environment: dict[str, str], *arguments: str, within: float = 100
) -> subprocess.CompletedProcess[str]:
    """Run a command of `manage.py` to its end."""
    return run_python("manage.py", *arguments, within=within, env=environment)


@contextmanager
def demo(environment: dict[str, str], *arguments: str, until: str) -> Iterator[Site]:
    """A demo that has printed a line which begins so."""
    with subprocess.Popen(
        [sys.executable, "manage.py", "demo", *arguments],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith(until):
                    break
            found = ADDRESS.search(said)
            assert found, said + process.communicate()[1]
            yield Site(process, *found.groups(), said)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        finally:
            process.kill()


@pytest.fixture
def site(request: pytest.FixtureRequest, environment: dict[str, str]) -> Iterator[Site]:
    """A demo after its first, very short comparison; its parameter: more arguments."""
    more = getattr(request, "param", [])
    with demo(environment, *SHORT, *more, until=LAST_LINE) as started:
        yield started


def see_how_it_ended(page: Page) -> None:
    """Wait for the end of the comparison that a page follows, and let the page show it."""
    page.wait_for_selector("#running-result:visible, .bank-ended", timeout=60_000)
    if page.is_visible("#running-result"):
        page.click("#running-result")
