"""Acquire for the compat locks: ask, listen, and ask again in case nobody tells.

Our own locks tell the waiter to whom they hand the lock. redis-py's locks do not, and a key that
expires does not, so whoever is first in the queue asks every `POLL` seconds all the same.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

from redis.exceptions import RedisError

from redis_locks.compat import commands
from redis_locks.compat.commands import GRANTED, NOBODY, Request
from redis_locks.drivers.base import Driver, Link, LinkBroken
from redis_locks.exceptions import LockBackendError

POLL = 0.09
"""Seconds between two questions of the first waiter: with its round trip less than a tenth."""

_SHORTEST_POLL = 0.01
_MOST_TURNS = 10
"""Further back in the queue it is enough to ask after so many turns of the first waiter."""


async def acquire(driver: Driver, request: Request, wait: float | None, sleep: float) -> bool:
    """Acquire, waiting up to `wait` seconds (0: not at all, None: for ever).

    `sleep` shortens the pause between two questions, down to 10 ms. Whatever goes wrong,
    cancellation included, leaves neither hold nor place in the queue behind, provided that the
    server can still be told.
    """
    until = float("inf") if wait is None else monotonic() + wait
    poll = min(max(sleep, _SHORTEST_POLL), POLL)
    ear = _Ear(driver, request.waiter.decode())
    try:
        while True:
            stay = monotonic() < until
            # To its end even if the caller is cancelled: an abandoned command may run later.
            place = await driver.finish(commands.acquire(request, ear.channel, stay=stay))
            if place == GRANTED or not stay:
                return place == GRANTED
            if not ear.opened:
                await ear.open()  # and ask again, which says where we listen
                continue
            pause = poll * min(place, _MOST_TURNS) if ear.hears else poll
            await ear.listen(max(0.0, min(pause, until - monotonic())))
    except BaseException:
        with suppress(RedisError, OSError):
            await driver.finish(_withdraw(request))
        raise
    finally:
        ear.close()


async def _withdraw(request: Request) -> None:
    """Leave the queue, and hand on what was granted meanwhile."""
    if await commands.acquire(request, NOBODY, stay=False) == GRANTED:
        await commands.release(request.client, request.keys, request.token)


class _Ear:
    """Where one waiter hears that the lock was handed to it; without a link it only sleeps."""

    def __init__(self, driver: Driver, waiter: str) -> None:
        self._driver = driver
        self._waiter = waiter
        self._link: Link | None = None
        self.opened = False

    @property
    def hears(self) -> bool:
        return self._link is not None

    @property
    def channel(self) -> bytes:
        return NOBODY if self._link is None else self._link.channel.encode()

    async def open(self) -> None:
        """Begin to listen; if that is impossible, go without for the rest of this wait."""
        self.opened = True
        with suppress(LinkBroken, LockBackendError):
            link = await self._driver.checkout_to_wait()
            self._link = await self._driver.seat(link)
            if self._link is not link:
                self._driver.checkin(link)
            self._link.listen(self._waiter)

    async def listen(self, seconds: float) -> None:
        """Return once told, or after so many seconds."""
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
            link.unlisten(self._waiter)
            self._driver.checkin(link)
