"""Signals that end a verb in an orderly way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals end the block with SystemExit(128 + number), so that it can clear up.

    Main thread only.
    """

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
