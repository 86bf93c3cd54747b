"""Wait for something to happen, without a fixed pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0
"""Seconds until a test gives up; far above anything a working lock needs, even on a busy machine.
"""


def until(happened: Callable[[], Any], *, within: float = PATIENCE) -> None:
    """Return once `happened()` is true; the pause only keeps the poll from hogging the machine."""
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.002)
