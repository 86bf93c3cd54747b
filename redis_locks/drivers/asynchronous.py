"""The asyncio drivers: one connection carries all commands and all grants of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from redis_locks.drivers.async_link import AsyncLink
from redis_locks.drivers.base import Link
from redis_locks.drivers.endpoint import Endpoint

T = TypeVar("T")


class AsyncDriver:
    """The driver of one event loop."""

    suspends = True
    skips_replies: bool | None = False
    parks = False

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        self.pause_after = endpoint.pause_after
        self.renewer: Any = None
        """Whoever renews over this driver leaves itself here, to end with the loop."""
        self.heard: Callable[[str], None] = lambda _: None
        """Gets each token of this process whose hold was ended by somebody else."""
        self.lost: Callable[[], None] = lambda: None
        """Is called when the link breaks: nobody is heard until the next one is open."""
        self._endpoint = endpoint
        self._prefix = prefix
        self._link: AsyncLink | None = None
        self._opening = asyncio.Lock()
        self._unshared: UnsharedDriver | None = None

    def unshared(self) -> AsyncDriver:
        """Return a driver that gives each user a link of its own, closed with this one."""
        if self._unshared is None:
            self._unshared = UnsharedDriver(self._endpoint, self._prefix)
        return self._unshared

    async def checkout(self) -> Link:
        """Return the loop's link; open it first if it is not there or broken."""
        link = self._link
        if link is not None and not link.broken:
            return link
        async with self._opening:
            if self._link is None or self._link.broken:
                link = AsyncLink(self._endpoint, self._prefix, self.heard, self.lost)
                await link.open()
                self._link = link
            return self._link

    async def checkout_to_wait(self) -> Link:
        """Return the loop's link: all its tasks share it."""
        return await self.checkout()

    def sits(self, link: Link) -> bool:  # noqa: ARG002 - as `Driver`
        """Return True: whoever asked over it waits there, too."""
        return True

    async def seat(self, link: Link) -> Link:
        """Return `link`: whoever asked over it waits there, too."""
        return link

    def checkin(self, link: Link) -> None:
        """Nothing to do: the link is shared."""

    def drop_idle(self) -> None:
        """Nothing to do: a broken link is replaced at the next checkout."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up to its end; cancellation meanwhile is raised afterwards."""
        task = asyncio.ensure_future(coroutine)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            if not task.cancelled():
                task.exception()  # seen; cancellation goes first
            raise cancelled
        return task.result()

    async def aclose(self) -> None:
        """Close the link."""
        if self._unshared is not None:
            await self._unshared.aclose()
        if self._link is not None:
            await self._link.aclose()


class UnsharedDriver(AsyncDriver):
    """Links of one event loop that have one user at a time: on the loop's own, all would wait for one."""

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        super().__init__(endpoint, prefix)
        self._idle: list[AsyncLink] = []

    def unshared(self) -> AsyncDriver:
        """Return this driver."""
        return self

    async def checkout(self) -> Link:
        """Return an idle link, or a new one; see `Driver`."""
        while self._idle:
            link = self._idle.pop()
            if not link.broken:
                return link
        link = AsyncLink(self._endpoint, self._prefix, self.heard)
        await link.open()
        return link

    def checkin(self, link: Link) -> None:
        """Give a link back; one that is broken, or whose user was cancelled in mid-command, is dropped."""
        if isinstance(link, AsyncLink) and not link.broken:
            if link.is_waiting:
                link.close()
            else:
                self._idle.append(link)

    def drop_idle(self) -> None:
        """Close the links that are not in use."""
        while self._idle:
            self._idle.pop().close()

    async def aclose(self) -> None:
        """Close the links that are not in use."""
        while self._idle:
            await self._idle.pop().aclose()
