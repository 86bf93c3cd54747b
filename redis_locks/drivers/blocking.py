"""The blocking driver: connections for the threads of a process."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet

from redis_locks.drivers.base import Link
from redis_locks.drivers.bells import ThreadBell
from redis_locks.drivers.blocking_link import BlockingLink, EarLink
from redis_locks.drivers.crowd import Crowd, CrowdLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.values.identity import LISTENER, process_name, random_text
from redis_locks.values.keys import grant_channel, holder_channel

T = TypeVar("T")

ALONE: Final = 4
"""Threads that wait with a connection each; further ones share one."""

FEW: Final = 8
"""Connections beyond which threads that ask for a lock wait for one of these, for a moment each."""

GROWTH: Final = 0.025
"""Seconds after which one of those that wait for a connection may open one more."""


class _Place:
    """A thread that wants a connection."""

    __slots__ = ("bell", "link")

    def __init__(self) -> None:
        self.bell = ThreadBell()
        self.link: BlockingLink | None = None


class BlockingDriver:
    """A pool of links for all threads of a process.

    It has no upper bound: whoever is to release a lock must never have to wait for a link behind those
    that wait for the lock. But these share a few: see `crowd`, and `FEW`.
    """

    suspends = False
    skips_replies: bool | None = None
    parks = True

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        self.pause_after = endpoint.pause_after
        self._endpoint = endpoint
        self._prefix = prefix
        self.forget()
        _DRIVERS.add(self)

    def forget(self) -> None:
        """Start empty: after a fork the links are the parent's."""
        self._idle: deque[BlockingLink] = deque()
        self._open: WeakSet[BlockingLink] = WeakSet()
        self._alone: set[int] = set()
        self._wanting: deque[_Place] = deque()
        self._grown_at = 0.0
        self._opening: deque[None] = deque()
        self._counting = threading.RLock()
        self._crowd = Crowd(partial(grant_channel, self._prefix), partial(EarLink, self._endpoint))

    async def checkout(self) -> Link:
        """Return an idle link, or a new one; see `Driver`."""
        try:
            return self._idle.pop()
        except IndexError:
            self._opening.append(None)
            return self._connected()

    def _connected(self) -> BlockingLink:
        """Return a new link, which stands in `_opening` already."""
        try:
            listener = random_text(LISTENER)
            own = "" if self._endpoint.in_cluster else grant_channel(self._prefix, listener)
            link = BlockingLink(self._endpoint, own, listener)
            self._open.add(link)
            return link
        finally:
            self._opening.pop()

    async def checkout_to_wait(self) -> Link:
        """Return a link of its own for one of the first few, or one that shares; see `Driver`."""
        if len(self._alone) >= ALONE and (shares := self._crowd.join(self)) is not None:
            return shares
        try:
            return self._idle.pop()
        except IndexError:
            return await self.checkout_for_asking()

    async def checkout_for_asking(self) -> Link:
        """Return an idle link, or a new one; where there are many, wait a moment for an idle one."""
        try:
            return self._idle.pop()
        except IndexError:
            return (not self._may_open() and await self._given_back()) or self._connected()

    def _may_open(self) -> bool:
        """Whether there are few links; then one more is being opened from now on."""
        with self._counting:
            few = len(self._open) + len(self._opening) < FEW
            if few:
                self._opening.append(None)
        return few

    async def _given_back(self) -> BlockingLink | None:
        """Return a link that another thread gives back; None if one more is to be opened.

        They come back within a round trip or so. Where that takes long, as the server is far away, there
        get to be more of them, one by one.
        """
        place = _Place()
        self._wanting.append(place)
        try:
            # Now that it is in line: what was given back just before.
            self._hand_out()
            while not await place.bell.rings(GROWTH):
                if self._may_grow():
                    return None
            link, place.link = place.link, None
            return link
        finally:
            with self._counting, suppress(ValueError):
                self._wanting.remove(place)
            if place.link is not None:
                self.checkin(place.link)

    def _hand_out(self) -> None:
        """Give idle links to those who want one, each in its turn: else who gave one back would take it again."""
        with self._counting, suppress(IndexError):  # another thread may take the last one
            while self._wanting:
                link = self._idle.pop()
                place = self._wanting.popleft()
                place.link = link
                place.bell.ring()

    def _may_grow(self) -> bool:
        """Whether it was long ago that one more link was opened; then one is from now on."""
        now = time.monotonic()
        with self._counting:
            grows = now - self._grown_at >= GROWTH
            if grows:
                self._grown_at = now
                self._opening.append(None)
        return grows

    def sits(self, link: Link) -> bool:
        """Whether it is one of the first few that wait; see `Driver`."""
        if len(self._alone) >= ALONE or not isinstance(link, BlockingLink):
            return False
        link.seats = self._alone
        link.seats.add(id(link))
        return True

    async def seat(self, link: Link) -> Link:
        """Return `link` for one of the first few that wait, else one that shares; see `Driver`."""
        if not isinstance(link, BlockingLink) or link.seats is not None or self.sits(link):
            return link
        shares = self._crowd.join(self)
        if shares is None:  # as many as there are
            link.seats = self._alone
            link.seats.add(id(link))
        return shares or link

    def unshared(self) -> BlockingDriver:
        """Return this driver: a thread has its link to itself."""
        return self

    def open_ear(self) -> EarLink:
        """Return a link that hears which holds of this process were ended by somebody else."""
        return EarLink(self._endpoint, holder_channel(self._prefix, process_name()))

    def checkin(self, link: Link) -> None:
        """Give a link back; a broken one is dropped."""
        if isinstance(link, BlockingLink):
            if link.seats is not None:
                link.seats.discard(id(link))
                link.seats = None
            if not link.broken:
                self._idle.append(link)
                if self._wanting:
                    self._hand_out()
        elif isinstance(link, CrowdLink):
            link.leave()

    def drop_idle(self) -> None:
        """Close the links that are not in use."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took the last one
                return

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)  # noqa: ASYNC251 - blocking is this driver's job

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up; a blocking caller cannot be cancelled."""
        return await coroutine


_DRIVERS: WeakSet[BlockingDriver] = WeakSet()


def _after_fork() -> None:
    for driver in _DRIVERS:
        driver.forget()


os.register_at_fork(after_in_child=_after_fork)
