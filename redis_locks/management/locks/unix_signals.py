"""Signals that end a verb in an orderly way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asked_by(*numbers: signal.Signals) -> Iterator[list[signal.Signals]]:
    """Yield a list to which these signals are added as they come, and do nothing else.

    Main thread only.
    """
    asked: list[signal.Signals] = []

    def note(number: int, _frame: object) -> None:
        asked.append(signal.Signals(number))

    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
