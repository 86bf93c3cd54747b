"""Locks in a process that gevent has patched, as `gunicorn --worker-class gevent` does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.children import run_python

SCRIPT = Path(__file__).with_name("greenlets.py")
pytestmark = pytest.mark.timeout(180)

CHECKS = re.findall(r"^def (\w+)\(name: str\) -> None:", SCRIPT.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What went wrong, by check; empty where nothing did."""
    ran = run_python("-m", "tests.servers.greenlets", "greenlets", within=150)
    assert 0 == ran.returncode, ran.stderr
    results: dict[str, str] = json.loads(ran.stdout)
    return results


@pytest.mark.parametrize("check", CHECKS)
def test_in_a_process_patched_by_gevent(found: dict[str, str], check: str) -> None:
    assert "" == found[check]
