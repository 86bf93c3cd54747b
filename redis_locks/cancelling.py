"""Cancel the task in an ``async with`` block whose hold is lost, as ``asyncio.timeout`` does when time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from redis_locks.leases import Lease


class CancelledByLoss:
    """From the start of a block to its end; in the thread of the event loop."""

    __slots__ = ("_before", "_cancelling", "_fired", "_leases", "_task")

    def __init__(self, leases: Iterable[Lease]) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._leases = tuple(leases)
        self._fired = False
        # A nested block's comes first, and then the outer one's again.
        self._before = [lease.on_lost for lease in self._leases]
        for lease in self._leases:
            lease.on_lost = self._cancel

    def _cancel(self) -> None:
        if not self._fired and self._task is not None:
            self._fired = True
            self._task.cancel()

    def stop(self) -> None:
        """Cancel the task no more."""
        for lease, before in zip(self._leases, self._before, strict=True):
            lease.on_lost = before

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
