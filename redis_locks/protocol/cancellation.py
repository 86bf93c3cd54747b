"""Cancel the task in an ``async with`` block whose hold is lost, as ``asyncio.timeout`` does when time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from redis_locks.protocol.leases import Lease


class HasLease(Protocol):
    """What keeps its lease in view: an upgrade gives it another one."""

    lease: Lease


class CancelledByLoss:
    """From the start of a block to its end, in the thread of the event loop; the loss any thread may find."""

    __slots__ = ("_before", "_cancelling", "_fired", "_parts", "_stopped", "_task")

    def __init__(self, parts: Iterable[HasLease]) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._parts = tuple(parts)
        self._fired = False
        self._stopped = False
        # A nested block's comes first, and then the outer one's again.
        self._before = [part.lease.on_lost for part in self._parts]
        for part in self._parts:
            part.lease.on_lost = self._lost

    def _lost(self) -> None:
        if self._task is None:
            return
        loop = self._task.get_loop()
        if _running_loop() is loop:
            self._cancel()
            return
        # A thread that renews or hears found it; the loop may sleep.
        with suppress(RuntimeError):  # closed, so nothing runs in it any more
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # Only here, in the loop's thread: what is counted is what was cancelled before the end.
        if not (self._fired or self._stopped) and self._task is not None:
            self._fired = True
            self._task.cancel()

    def stop(self) -> None:
        """Cancel the task no more."""
        self._stopped = True
        for part, before in zip(self._parts, self._before, strict=True):
            part.lease.on_lost = before

    async def end(self, error: BaseException | None) -> BaseException | None:
        """Return what the block ended with; None in place of a cancellation that was ours."""
        self.stop()
        if not self._fired or self._task is None:
            return error
        others = self._task.uncancel() > self._cancelling
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # ours, which found the block at its end
            return error
        return error if others else None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
