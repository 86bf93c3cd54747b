"""How a compat lock waits: it asks, listens, and asks again in case nobody notifies it.

A release of ours notifies the waiter that gets the lock. A release of redis-py's, or an expiry,
notifies nobody. So the first waiter asks every `POLL` seconds as well.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

from redis_locks.compat import commands
from redis_locks.compat.client_errors import server_errors
from redis_locks.compat.commands import GRANTED, NOBODY, CompatRequest
from redis_locks.drivers.base import Driver, Link, LinkBroken
from redis_locks.exceptions import LockBackendError

POLL = 0.09
"""Seconds after which the first waiter asks again; with the round trip, less than 0.1."""

_SHORTEST_POLL = 0.01
_MOST_TURNS = 10
"""How many times as long, at most, waiters further back in the queue pause."""


async def acquire(driver: Driver, request: CompatRequest, wait: float | None, sleep: float) -> bool:
    """Acquire, waiting up to `wait` seconds (0: not at all, None: for ever).

    `sleep` shortens the pause between two questions, down to 10 ms. Whatever it raises, and
    whatever keeps the caller from taking note of the lock: call `give_up` then.
    """
    until = float("inf") if wait is None else monotonic() + wait
    poll = min(max(sleep, _SHORTEST_POLL), POLL)
    subscription = _Subscription(driver, request.waiter.decode())
    try:
        while True:
            stay = monotonic() < until
            # Finished even if the caller is cancelled: a command that was broken off may run later.
            place = await driver.finish(commands.acquire(request, subscription.channel, stay=stay))
            if place == GRANTED or not stay:
                return place == GRANTED
            if not subscription.was_opened:
                await subscription.open()  # ask again, to tell the server where we listen
                continue
            pause = poll * min(place, _MOST_TURNS) if subscription.is_open else poll
            await subscription.listen(max(0.0, min(pause, until - monotonic())))
    finally:
        subscription.close()


async def give_up(driver: Driver, request: CompatRequest) -> None:
    """Leave neither a hold nor a place in the queue behind, if the server can still be reached."""
    with suppress(*server_errors()):
        await driver.finish(_give_up(request))


async def _give_up(request: CompatRequest) -> None:
    """Give up the place, and release the lock if it was granted meanwhile."""
    if await commands.acquire(request, NOBODY, stay=False) == GRANTED:
        await commands.release(request.client, request.keys, request.token)


class _Subscription:
    """Receives the notification that a waiter got the lock; without a link it only sleeps."""

    def __init__(self, driver: Driver, waiter: str) -> None:
        self._driver = driver
        self._waiter = waiter
        self._link: Link | None = None
        self.was_opened = False

    @property
    def is_open(self) -> bool:
        return self._link is not None

    @property
    def channel(self) -> bytes:
        return NOBODY if self._link is None else self._link.channel.encode()

    async def open(self) -> None:
        """Begin to listen; if that fails, do without for the rest of this wait."""
        self.was_opened = True
        with suppress(LinkBroken, LockBackendError):
            link = await self._driver.checkout(self._waiter)
            self._link = await self._driver.waiting_link(link, self._waiter)
            if self._link is not link:
                self._driver.checkin(link)

    async def listen(self, seconds: float) -> None:
        """Return when notified, or after `seconds`."""
        if self._link is None:
            await self._driver.sleep(seconds)
            return
        try:
            await self._link.receive(self._waiter, seconds)
        except LinkBroken:
            self.close()
            self._driver.drop_idle()
            await self.open()

    def close(self) -> None:
        """Give the link back."""
        link, self._link = self._link, None
        if link is not None:
            self._driver.checkin(link, self._waiter)
