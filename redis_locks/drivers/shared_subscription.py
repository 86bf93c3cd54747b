"""One connection that receives the grants of many waiting threads.

`BlockingDriver` uses it. The first few threads that wait keep a connection each and read it
themselves, which wakes them fastest. All others send their commands over connections of the pool,
give these back at once, and receive grants on the shared connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from time import monotonic
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from redis_locks.drivers.base import Call, Link
from redis_locks.drivers.listener_thread import ListenerThread, Subscription
from redis_locks.drivers.server_link import CallingLink
from redis_locks.drivers.wake_events import ThreadWakeEvent
from redis_locks.scripts import Script
from redis_locks.values.identity import LISTENER, random_text

T = TypeVar("T")

SILENCE: Final = 5.0
"""Seconds without a message after which the connection is tested, or closed if nobody listens."""

BUSY: Final = 1.0
"""Seconds for which a thread waits while another one opens the connection."""


class CommandPool(Protocol):
    """Where connections for commands come from."""

    async def checkout_for_asking(self) -> Link:
        """Return a link; waits a moment for one that is in use."""

    def checkin(self, link: Link) -> None:
        """Give a link back."""


class SharedSubscription:
    """Threads of one process that receive messages on one connection.

    Args:
        channel_of: Returns the channel of a listener, which is what scripts are told of it.
        connect: Opens a link that listens to a channel, each message beginning with the token that
            it is for; raises LinkBroken or LockBackendError.
    """

    def __init__(
        self, channel_of: Callable[[str], str], connect: Callable[[str], Subscription]
    ) -> None:
        self.listener = self.channel = ""
        self._channel_of = channel_of
        self._members: WeakSet[SharedLink] = WeakSet()
        self._by_token: WeakValueDictionary[str, SharedLink] = WeakValueDictionary()
        self._mutex = threading.RLock()
        self._openers: set[int] = set()
        """The threads that open the connection, or wait until another one has.

        The handler of a signal that comes in between does not wait for its own thread.
        """
        self._connect = connect
        self._listener_thread = ListenerThread(
            self._connected, self._deliver, self._wake_all, silence=SILENCE, over=self._is_over
        )

    def _connected(self) -> Subscription:
        """Return a link with a new listener's name: messages to the one before are lost."""
        listener = random_text(LISTENER)
        channel = self._channel_of(listener)
        link = self._connect(channel)
        self.listener, self.channel = listener, channel
        return link

    def join(self, pool: CommandPool, token: str) -> SharedLink | None:
        """Return a link for one thread, which receives messages for `token`.

        None if the connection is not available now; may connect.
        """
        link = SharedLink(self, pool)
        with self._mutex:
            self._members.add(link)  # from here on it stays open, if it is
        if not self._is_open():
            self.leave(link, token)
            return None
        self._by_token[token] = link
        return link

    def _is_open(self) -> bool:
        """Whether it listens. Opens it, or waits a moment until another thread has."""
        thread, me = self._listener_thread, threading.get_ident()
        if thread.is_open or me in self._openers or monotonic() < thread.retry_at:
            return thread.is_open
        try:
            self._openers.add(me)
            return thread.try_to_open(BUSY)
        finally:
            self._openers.discard(me)

    def disconnect(self) -> None:
        """Connect again under another name, so that grants to the name before find no listener."""
        self._listener_thread.connect_again()

    def leave(self, link: SharedLink, token: str) -> None:
        """Note that a thread waits no more."""
        self._by_token.pop(token, None)
        with self._mutex:
            self._members.discard(link)

    def _deliver(self, message: str) -> None:
        link = self._by_token.get(message.partition(" ")[0])
        if link is not None:
            link.put(message.encode())

    def _wake_all(self) -> None:
        """Wake all members, so that they ask again: a message may have been lost."""
        # Not `values()`, which fails if other threads join or leave meanwhile (before Python 3.14).
        for reference in self._by_token.valuerefs():
            link = reference()
            if link is not None:
                link.put(b"")

    def _is_over(self) -> bool:
        with self._mutex:
            if self._members:
                return False
            self._listener_thread.close()
            return True


class SharedLink(CallingLink):
    """The link of one waiting thread.

    It sends over links of the pool and receives on the shared connection.
    """

    __slots__ = (
        "__weakref__",
        "_message",
        "_pool",
        "_shared_subscription",
        "_wake_event",
        "in_bulk",
    )

    def __init__(self, subscription: SharedSubscription, pool: CommandPool) -> None:
        self._shared_subscription = subscription
        self._pool = pool
        self._wake_event = ThreadWakeEvent()
        self._message = b""
        self.in_bulk = False
        """Whether it asks over the bulk links of the pool's."""

    @property
    def channel(self) -> str:
        """Where it receives grants; another one after each new connection."""
        return self._shared_subscription.channel

    @property
    def listener(self) -> str:
        """What scripts are told of it; another one after each new connection."""
        return self._shared_subscription.listener

    async def call(self, script: Script, call: Call, reads: Sequence[bytes] = ()) -> list[Any]:
        """Run a script and commands after it in one round trip; see `Link`."""
        return await self._ask(lambda link: link.call(script, call, reads))

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

    async def bulk(self) -> SharedLink:
        """Return a link that asks over the bulk links of the pool's; see `Link`."""
        bulk = copy(self)
        bulk.in_bulk = True
        return bulk

    def put(self, message: bytes) -> None:
        """Keep a message, or an empty one that says: ask again."""
        self._message = message or self._message
        self._wake_event.set()

    def disconnect(self) -> None:
        """Replace the shared connection; see `Link`."""
        self._shared_subscription.disconnect()

    async def receive(self, token: str, timeout: float) -> bytes | None:  # noqa: ARG002 - as `Link`
        """Wait for a message; None as well when the connection was gone meanwhile; see `Link`."""
        await self._wake_event.wait(timeout)
        message, self._message = self._message, b""
        return message or None

    def leave(self, token: str) -> None:
        """Wait for messages for `token` no more."""
        self._shared_subscription.leave(self, token)
