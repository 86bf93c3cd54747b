"""Wake-ups inside this process: a thread or a task waits for a bell, and another one rings it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Protocol


class Bell(Protocol):
    """One waiter, any number of ringers. A ring is kept until the waiter has noticed it."""

    def ring(self) -> None:
        """Wake the waiter, now or when it begins to wait."""

    async def rings(self, seconds: float) -> bool:
        """Wait until it was rung, and return True; False when it was not within `seconds`."""


class ThreadBell:
    """A bell for a thread."""

    __slots__ = ("_silence",)

    def __init__(self) -> None:
        # A bare lock: threading.Event costs ten times as much to make.
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """Wake the one who waits; see `Bell`."""
        with suppress(RuntimeError):  # it rings already
            self._silence.release()

    async def rings(self, seconds: float) -> bool:
        """Block the thread until it was rung; see `Bell`."""
        return self._silence.acquire(timeout=max(seconds, 0.0))


class TaskBell:
    """A bell for a task of the running event loop; any thread may ring it."""

    __slots__ = ("_loop", "_rung", "_sleeper")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the one who waits; see `Bell`."""
        self._rung = True
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # no loop runs here
            here = False
        if here:
            self._wake()
        else:
            with suppress(RuntimeError):  # it is closed: nobody waits there any more
                self._loop.call_soon_threadsafe(self._wake_if_rung)

    def _wake_if_rung(self) -> None:
        # Else the one who waits has noticed, and may wait for the next ring already.
        if self._rung:
            self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def rings(self, seconds: float) -> bool:
        """Suspend the task until it was rung; see `Bell`."""
        if not self._rung and seconds > 0:
            self._sleeper = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._wake)
            try:
                await self._sleeper
            finally:
                timer.cancel()
                self._sleeper = None
        rung, self._rung = self._rung, False
        return rung
