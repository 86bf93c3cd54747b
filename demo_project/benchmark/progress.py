"""A bar on the terminal for what takes minutes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from redis_locks.management.locks.console import Console
from redis_locks.values.text import duration, shorten

_CLEAR = "\r\x1b[K"
_BAR = 20


@contextmanager
def progress(console: Console, turns: int) -> Iterator[Callable[[str], None]]:
    """Yield what to call before each turn, with what is done in it: it moves a bar.

    Only on a terminal, and nothing stays of the bar.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    done = count()
    started = time.monotonic()

    def turn(text: str) -> None:
        share = min(next(done) / turns, 1)
        left = (time.monotonic() - started) * (1 / share - 1) if share else None
        filled = round(share * _BAR)
        bar = "#" * filled + "-" * (_BAR - filled)
        end = "" if left is None else f", {duration(left)} left"
        columns = shutil.get_terminal_size().columns - 1  # the cursor needs one, too
        line = shorten(f"[{bar}] {share:4.0%}  {text}{end}", columns)
        console.note(_CLEAR + line, ending="")

    try:
        yield turn
    finally:
        console.note(_CLEAR, ending="")
