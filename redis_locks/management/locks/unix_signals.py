"""Signals that end a verb in an orderly way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def asked_by(*numbers: signal.Signals) -> Iterator[list[signal.Signals]]:
    """Yield a list to which these signals are added as they come, and do nothing else.

    Main thread only.
    """
    asked: list[signal.Signals] = []
    with _handled(lambda number, _frame: asked.append(signal.Signals(number)), numbers):
        yield asked


@contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals end the block with SystemExit(128 + number), so that it can clear up.

    Main thread only.
    """

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    with _handled(end, numbers):
        yield


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
