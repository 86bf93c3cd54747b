"""Messages for waiting tasks of one event loop, with one timer for all of their time limits.

`AsyncLink` puts in what it receives.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from math import inf

_LATE = 0.001
"""Seconds by which the timer is set late: that of a loop which counts whole milliseconds, as
uvloop, may be early.
"""


class _Slot:
    """The latest message for one token, and the future of the task that waits for it."""

    message = b""
    woken = False
    """Whether something happened that the task has not seen yet."""
    sleeper: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the task that waits, or is going to wait."""
        self.woken = True
        if self.sleeper is not None and not self.sleeper.done():
            self.sleeper.set_result(None)


class TaskMessages:
    """The latest message for each token, of one connection.

    For the thread of the event loop only.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[bytes, _Slot] = {}
        # When whom to wake at the latest, first things first; also of those who wait no longer.
        # A timer of the loop's for each would be made, compared and cancelled in Python.
        self._limits: list[tuple[float, int, _Slot, asyncio.Future[None]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = inf

    def __len__(self) -> int:
        """How many tokens it keeps messages for."""
        return len(self._slots)

    def open(self, token: str) -> None:
        """Keep messages for `token` from now on."""
        self._slots[token.encode()] = _Slot()

    def close(self, token: str) -> None:
        """Forget `token`."""
        self._slots.pop(token.encode(), None)

    def put(self, message: bytes) -> None:
        """Give a message to the token it starts with, in place of an earlier one."""
        slot = self._slots.get(message.split(b" ", 1)[0])
        if slot is not None:
            slot.message = message
            slot.wake()

    def wake_all(self) -> None:
        """Wake all tasks that wait, without a message."""
        for slot in self._slots.values():
            slot.wake()

    async def look(self, token: str, seconds: float) -> bytes:
        """Return the message for `token`; b"" if none came within `seconds`, or all were woken."""
        slot = self._slots[token.encode()]
        if not slot.woken and seconds > 0:
            slot.sleeper = sleeper = self._loop.create_future()
            until = self._loop.time() + seconds
            heappush(self._limits, (until, next(self._numbers), slot, sleeper))
            if until < self._wakes_at:
                self._wake_at(until)
            try:
                await sleeper
            finally:
                slot.sleeper = None
        slot.woken = False
        message, slot.message = slot.message, b""
        return message

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        self._timer = self._loop.call_at(when + _LATE, self._wake_due)

    def _wake_due(self) -> None:
        now = self._loop.time()
        self._timer, self._wakes_at = None, inf
        while self._limits:
            until, _, slot, sleeper = self._limits[0]
            if not sleeper.done():
                if until > now:
                    self._wake_at(until)
                    return
                slot.wake()
            heappop(self._limits)
