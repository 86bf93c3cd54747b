"""Answers of the server that somebody wants at once or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if it fails, or takes longer than so many seconds.

    It runs in a thread of its own, which is left alone with it after that.
    """
    found: list[T] = []

    def run() -> None:
        # None stands for every failure, also for settings that are wrong.
        with suppress(Exception):
            found.append(read())

    thread = threading.Thread(target=run, name="redis_locks-look", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None
