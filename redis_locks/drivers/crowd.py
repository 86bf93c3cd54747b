"""One connection on which many waiting threads hear.

`BlockingDriver` uses it. The first few threads that wait keep a connection each and read it themselves, which
wakes them fastest. All others send their commands over connections of the pool, give these back at
once, and hear grants on the shared connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from time import monotonic
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from redis_locks.drivers.base import Call, Link
from redis_locks.drivers.bells import ThreadBell
from redis_locks.drivers.ears import Ear, HearingLink
from redis_locks.drivers.server_link import CallingLink
from redis_locks.scripts import Script
from redis_locks.values.identity import LISTENER, random_text

T = TypeVar("T")

SILENCE: Final = 5.0
"""Seconds without a message after which the connection is tested, or closed if nobody listens."""

BUSY: Final = 1.0
"""Seconds for which a thread waits while another one opens the connection."""


class Pool(Protocol):
    """Where connections for commands come from."""

    async def checkout_for_asking(self) -> Link:
        """Return a link; waits a moment for one that is in use."""

    def checkin(self, link: Link) -> None:
        """Give a link back."""


class Crowd:
    """Threads of one process that hear on one connection.

    Args:
        channel_of: Returns the channel of a listener, which is what scripts are told of it.
        connect: Opens a link to hear on a channel, each message beginning with the token that it is
            for; raises LinkBroken or LockBackendError.
    """

    def __init__(
        self, channel_of: Callable[[str], str], connect: Callable[[str], HearingLink]
    ) -> None:
        self.listener = self.channel = ""
        self._channel_of = channel_of
        self._members: WeakSet[CrowdLink] = WeakSet()
        self._by_token: WeakValueDictionary[str, CrowdLink] = WeakValueDictionary()
        self._mutex = threading.RLock()
        self._connect = connect
        self._ear = Ear(
            self._connected, self._heard, self._was_deaf, silence=SILENCE, over=self._is_over
        )

    def _connected(self) -> HearingLink:
        """Return a link with a new listener's name: messages to the one before are lost."""
        listener = random_text(LISTENER)
        channel = self._channel_of(listener)
        link = self._connect(channel)
        self.listener, self.channel = listener, channel
        return link

    def join(self, pool: Pool, token: str) -> CrowdLink | None:
        """Return a link for one thread, which hears messages for `token`, or None if the connection cannot be had now; may connect."""
        if not self._mutex.acquire(timeout=BUSY):
            return None
        try:
            ear = self._ear
            if not ear.is_open and (monotonic() < ear.retry_at or not ear.try_to_open()):
                return None
            link = CrowdLink(self, pool)
            self._members.add(link)
            self._by_token[token] = link
            return link
        finally:
            self._mutex.release()

    def forsake(self) -> None:
        """Connect again under another name, so that grants to the name before find no listener."""
        self._ear.connect_again()

    def leave(self, link: CrowdLink, token: str) -> None:
        """Note that a thread waits no more."""
        self._by_token.pop(token, None)
        with self._mutex:
            self._members.discard(link)

    def _heard(self, message: str) -> None:
        link = self._by_token.get(message.partition(" ")[0])
        if link is not None:
            link.hear(message.encode())

    def _was_deaf(self) -> None:
        """Wake all members, so that they ask again: a message may have been lost."""
        for link in list(self._by_token.values()):
            link.hear(b"")

    def _is_over(self) -> bool:
        with self._mutex:
            if self._members:
                return False
            self._ear.close()
            return True


class CrowdLink(CallingLink):
    """The link of one waiting thread: it sends over links of the pool and hears on the shared connection."""

    __slots__ = ("__weakref__", "_bell", "_crowd", "_message", "_pool", "in_bulk")

    def __init__(self, crowd: Crowd, pool: Pool) -> None:
        self._crowd = crowd
        self._pool = pool
        self._bell = ThreadBell()
        self._message = b""
        self.in_bulk = False
        """Whether it asks over the bulk links of the pool's."""

    @property
    def channel(self) -> str:
        """Where it hears grants; another one after each new connection."""
        return self._crowd.channel

    @property
    def listener(self) -> str:
        """What scripts are told of it; another one after each new connection."""
        return self._crowd.listener

    async def call_and_read(
        self, script: Script, call: Call, reads: Sequence[bytes]
    ) -> tuple[Any, list[Any]]:
        """Run a script and commands after it in one round trip; see `Link`."""
        return await self._ask(lambda link: link.call_and_read(script, call, reads))

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        """Run commands in one round trip; see `Link`."""
        return await self._ask(lambda link: link.read(reads, keys))

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; see `Link`."""
        return await self._ask(lambda link: link.call_many(script, calls))

    async def _ask(self, question: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        link = await self._pool.checkout_for_asking()
        try:
            return await question(await link.bulk() if self.in_bulk else link)
        finally:
            self._pool.checkin(link)

    async def bulk(self) -> CrowdLink:
        """Return a link that asks over the bulk links of the pool's; see `Link`."""
        bulk = copy(self)
        bulk.in_bulk = True
        return bulk

    def hear(self, message: bytes) -> None:
        """Keep a message, or an empty one that says: ask again."""
        self._message = message or self._message
        self._bell.ring()

    def forsake(self) -> None:
        """Replace the shared connection; see `Link`."""
        self._crowd.forsake()

    async def receive(self, token: str, timeout: float) -> bytes | None:  # noqa: ARG002 - as `Link`
        """Wait for a message; None as well when the connection was gone meanwhile; see `Link`."""
        await self._bell.rings(timeout)
        message, self._message = self._message, b""
        return message or None

    def leave(self, token: str) -> None:
        """Wait for messages for `token` no more."""
        self._crowd.leave(self, token)
