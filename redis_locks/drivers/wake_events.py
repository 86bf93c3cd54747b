"""An event that wakes one thread. The pool of `blocking` and `shared_subscription` wait on it."""

from __future__ import annotations

import threading
from contextlib import suppress


class ThreadWakeEvent:
    """One waiter, any number of callers of `set`.

    The event stays set until `wait` has returned True.
    """

    __slots__ = ("_cleared",)

    def __init__(self) -> None:
        # A bare lock: threading.Event costs ten times as much to make.
        self._cleared = threading.Lock()
        self._cleared.acquire()

    def set(self) -> None:
        """Wake the thread, now or when it begins to wait."""
        with suppress(RuntimeError):  # it is set already
            self._cleared.release()

    async def wait(self, seconds: float) -> bool:
        """Block until the event is set, and clear it; False if it is not set within `seconds`."""
        return self._cleared.acquire(timeout=max(seconds, 0.0))
