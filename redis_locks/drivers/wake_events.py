"""Events that wake one thread or one task of this process.

The pool of `blocking` and `shared_subscription` wait on them.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Protocol


class WakeEvent(Protocol):
    """One waiter, any number of callers of `set`. The event stays set until `wait` has returned True."""

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""

    async def wait(self, seconds: float) -> bool:
        """Wait until the event is set, clear it and return True; False if it is not set within `seconds`."""


class ThreadWakeEvent:
    """A wake event for a thread."""

    __slots__ = ("_cleared",)

    def __init__(self) -> None:
        # A bare lock: threading.Event costs ten times as much to make.
        self._cleared = threading.Lock()
        self._cleared.acquire()

    def set(self) -> None:
        """Wake the thread; see `WakeEvent`."""
        with suppress(RuntimeError):  # it is set already
            self._cleared.release()

    async def wait(self, seconds: float) -> bool:
        """Block the thread until the event is set; see `WakeEvent`."""
        return self._cleared.acquire(timeout=max(seconds, 0.0))


class TaskWakeEvent:
    """A wake event for a task of the running event loop; any thread may set it."""

    __slots__ = ("_is_set", "_loop", "_sleeper")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task; see `WakeEvent`."""
        self._is_set = True
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # no loop runs here
            here = False
        if here:
            self._wake()
        else:
            with suppress(RuntimeError):  # it is closed: nobody waits there any more
                self._loop.call_soon_threadsafe(self._wake_if_set)

    def _wake_if_set(self) -> None:
        # Else the task has noticed, and may wait for the next `set` already.
        if self._is_set:
            self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Suspend the task until the event is set; see `WakeEvent`."""
        if not self._is_set and seconds > 0:
            self._sleeper = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._wake)
            try:
                await self._sleeper
            finally:
                timer.cancel()
                self._sleeper = None
        was_set, self._is_set = self._is_set, False
        return was_set
