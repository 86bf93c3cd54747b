"""Questions to the server in threads of their own, for those who cannot wait until it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_background(ask: Callable[[], T]) -> Future[T]:
    """Call `ask` once in a thread of its own, which delays no end of the process."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - whoever reads the answer gets it
            answer.set_exception(error)

    threading.Thread(target=run, name="redis_locks-ask", daemon=True).start()
    return answer


def within(seconds: float, ask: Callable[[], T]) -> T | None:
    """Return what `ask` returns; None if it fails, also for wrong settings, or takes longer than so many seconds."""
    try:
        return in_background(ask).result(seconds)
    except Exception:  # noqa: BLE001 - as said above
        return None
