"""Renewal by one task for all holds of an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from math import inf
from time import monotonic
from typing import Protocol

from redis_locks.drivers.base import Driver, LinkBroken
from redis_locks.drivers.ears import PAUSES
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol.leases import Lease, tell_lost
from redis_locks.protocol.renewal.extending import renew
from redis_locks.protocol.renewal.registry import Registry
from redis_locks.protocol.renewal.renewer import ERROR_PAUSE

logger = logging.getLogger("redis_locks")


class HearingDriver(Driver, Protocol):
    """A driver whose connection hears everything."""

    heard: Callable[[str], None]
    """Gets each token of this process whose hold somebody else has ended."""
    lost: Callable[[], None]
    """Is called when the connection breaks."""


class TaskRenewer:
    """Renews the holds of one event loop from one task."""

    def __init__(self, driver: HearingDriver) -> None:
        self._driver = driver
        self._registry = Registry(self._tell_lost)
        driver.heard = self._registry.revoke
        driver.lost = self._open_again
        self._opening: asyncio.Task[None] | None = None
        self._opened_at = -inf
        self._telling: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._wakes_at = inf

    def add(self, lease: Lease) -> None:
        """Renew `lease` until it is discarded, lost or garbage."""
        self._registry.add(lease)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="redis_locks-renewal"
            )
        elif lease.due < self._wakes_at:
            self._wakes_at = lease.due
            self._changed.set()

    def discard(self, lease: Lease) -> None:
        """Stop renewing `lease`."""
        self._registry.discard(lease)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Do nothing: the connection of the loop listens, and is opened again while anything is held."""
        yield

    def _open_again(self) -> None:
        if len(self._registry) and (self._opening is None or self._opening.done()):
            self._opening = asyncio.get_running_loop().create_task(
                self._listen_again(), name="redis_locks-ear"
            )

    async def _listen_again(self) -> None:
        """Open the connection again, and renew all: somebody may have ended a hold meanwhile."""
        # At once, unless it broke just now as well.
        first = int(monotonic() - self._opened_at < PAUSES[-1])
        for pause in chain(PAUSES[first:], repeat(PAUSES[-1])):
            await asyncio.sleep(pause)
            if not len(self._registry):
                return
            try:
                self._driver.checkin(await self._driver.checkout())
            except (LinkBroken, LockBackendError):
                continue
            break
        self._opened_at = monotonic()
        self._registry.renew_all()
        self._changed.set()

    async def _run(self) -> None:
        while True:
            due, pause = self._registry.take_due()
            if due:
                try:
                    await renew(self._driver, due)
                except Exception:
                    logger.exception("Renewal failed; trying again")
                    await asyncio.sleep(ERROR_PAUSE)
                del due
                continue
            # Woken early, for a lease that may be gone already, it keeps that time: the next lease
            # would only wake it again.
            now = monotonic()
            self._wakes_at = min(self._wakes_at, now + pause)
            self._changed.clear()
            try:
                async with asyncio.timeout(self._wakes_at - now):
                    await self._changed.wait()
            except TimeoutError:
                self._wakes_at = inf
                if pause >= self._registry.IDLE and not len(self._registry):
                    return

    def _tell_lost(self, lease: Lease) -> None:
        # Whoever listens may take long, and other holds need their renewal meanwhile.
        task = asyncio.get_running_loop().create_task(
            tell_lost(self._driver, lease), name="redis_locks-lost"
        )
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
