"""The asyncio driver: one connection carries all commands and all grants of an event loop.

`connections.backends` makes one driver for each loop and server, `cluster` one for each node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from copy import copy
from time import monotonic
from typing import Any, TypeVar, cast

from redis_locks.drivers import idle_connections
from redis_locks.drivers.base import Link, LinkBroken, WaitsInPlace
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connecting
from redis_locks.drivers.fork_safety import close_in_children
from redis_locks.drivers.refusals import reply_error
from redis_locks.drivers.resp import (
    CONFIRMATIONS,
    MESSAGES,
    UNFINISHED,
    ErrorReply,
    ProtocolError,
    Push,
    pack,
)
from redis_locks.drivers.server_link import ServerLink
from redis_locks.drivers.task_messages import TaskMessages
from redis_locks.drivers.time_limits import MUCH
from redis_locks.exceptions import LockBackendError
from redis_locks.values.identity import LISTENER, random_text
from redis_locks.values.keys import grant_channel

T = TypeVar("T")


_Awaited = tuple[asyncio.Future[Any], float, int, list[Any]]
"""What gets the replies, when they were asked for, how many there are in a list (0: one by itself),
and those that came.
"""


class AsyncLink(ServerLink, asyncio.Protocol):
    """A connection that all tasks share.

    Replies come in the order of the commands, messages in between.

    redis-py opens the connection (address, TLS, credentials, database). After that only its
    transport is used.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        prefix: str,
        *,
        listener: str = "",
    ) -> None:
        """Make a link that `open` connects; with `listener`, the bulk link of the one named so."""
        self._subscribes = not listener
        self.listener = listener or random_text(LISTENER)
        self._prefix = prefix
        self.channel = grant_channel(prefix, self.listener)
        self.channels: set[str] = set()
        self.broken = False
        self.tails: dict[object, str] = {}
        self._why = ""
        self.endpoint = endpoint
        self._breaker = endpoint.breaker
        self.reader = endpoint.reader()
        self._writer: asyncio.StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._replies: deque[_Awaited] = deque()
        self._latest: asyncio.Future[Any] | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._messages = TaskMessages(self._loop)
        self.listen, self.unlisten = self._messages.open, self._messages.close
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._received = 0
        """How many bytes have come since the last reply was whole, or was waited for again."""
        self._bulk: AsyncLink | None = None
        self._opening_bulk = SharedOpening(self._open_bulk)

    async def open(self) -> None:
        """Connect and subscribe. Raises Unreachable, LinkBroken or LockBackendError."""
        connection = self.endpoint.async_connection()
        try:
            with connecting(self.endpoint, self.close):
                async with asyncio.timeout(self.endpoint.connect_timeout):
                    await connection.connect()
                self._take_over(connection)
                if self._subscribes and self.endpoint.subscribes:
                    await self._subscribe()
        finally:
            with suppress(Exception):
                await connection.disconnect(nowait=True)  # nothing left to close after take-over

    async def _subscribe(self) -> None:
        subscribe = pack((b"SUBSCRIBE", self.channel.encode()))
        (subscribed,) = await self.round_trip(subscribe, 1)
        if isinstance(subscribed, ErrorReply):
            raise reply_error(subscribed, self.endpoint)

    @property
    def open_bulk(self) -> AsyncLink | None:
        """The link for replies of any size, if it is open; see `Link`."""
        bulk = self._bulk
        return bulk if bulk is not None and not bulk.broken else None

    async def bulk(self) -> AsyncLink:
        """Return the link for replies of any size, which all tasks share; see `Link`."""
        if self._bulk is not None and not self._bulk.broken:
            return self._bulk
        return await self._opening_bulk.link()

    async def _open_bulk(self) -> AsyncLink:
        link = AsyncLink(self.endpoint, self._prefix, listener=self.listener)
        await link.open()
        if self.broken:
            link.close()
            raise LinkBroken(self._why)
        self._bulk = link
        return link

    def _take_over(self, opened: Any) -> None:
        # The only way to its transport. The writer is kept: it closes the transport when it goes.
        self._writer, opened._writer, opened._reader = opened._writer, None, None  # noqa: SLF001
        self._transport = cast("asyncio.Transport", self._writer.transport)
        self._transport.set_protocol(self)
        close_in_children(self)
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Give each reply to its caller, in order, and each message to its listener."""
        try:
            if self._breaker.trouble:
                self._breaker.heard()
            self._received += len(data)
            reader = self.reader
            reader.feed(data)
            while (reply := reader.gets()) is not UNFINISHED:
                if isinstance(reply, Push) and reply[0] not in CONFIRMATIONS:
                    self._keep(reply)
                elif self._replies:
                    self._answer(reply)
                else:
                    raise ProtocolError(f"{str(reply)[:80]} answers nothing that was asked")
        except (ProtocolError, UnicodeDecodeError) as error:
            self._fail_to_read(error)
        except BaseException as error:
            # asyncio leaves the connection open after a KeyboardInterrupt or a SystemExit.
            self.fail(LinkBroken(f"{type(error).__name__} came as a reply was read"))
            raise

    def _fail_to_read(self, error: ProtocolError | UnicodeDecodeError) -> None:
        # The user's client decodes, and the text of a reply is in another encoding.
        if isinstance(error, UnicodeDecodeError) and self._replies:
            future = self._replies[0][0]
            if not future.done():
                future.set_exception(error)
        self.fail(LinkBroken(str(error)))

    def _answer(self, reply: Any) -> None:
        """Give a reply to who has waited longest, if it is the last one that was asked for."""
        future, _, number, came = self._replies[0]
        if number:
            came.append(reply)
            if len(came) < number:
                return
            reply = came
        if not future.done():  # else its caller was cancelled
            future.set_result(reply)
        # Last: an interrupt before this breaks the connection, which fails those that are left.
        self._replies.popleft()
        self._received = 0

    def _keep(self, push: Push) -> None:
        if push[0] in MESSAGES:
            self._messages.put(push[2])
        elif push[0] == b"sunsubscribe":
            self.channels.discard(push[1].decode())
            self._messages.wake_all()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all commands and waits on this connection."""
        self.fail(LinkBroken(str(exc or "the server closed the connection")))
        if not self._closed.done():
            self._closed.set_result(None)

    def fail(self, error: LinkBroken) -> None:
        """Close, because of `error`; see `ServerLink`."""
        if not self.broken:
            self.waiters = len(self._messages)
        self.broken = True
        self._why = self._why or str(error)
        if self._transport is not None:
            self._transport.abort()
        if self._overdue is not None:
            self._overdue.cancel()
        for future, *_ in self._replies:
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark as seen: its caller may be gone
        self._replies.clear()
        self._messages.wake_all()
        if self._bulk is not None:
            self._bulk.close()

    def _watch(self) -> None:
        """Fail the link if a reply is overdue. One timer serves all commands."""
        self._overdue = None
        if self._replies:
            left = self._replies[0][1] + self.endpoint.reply_timeout - monotonic()
            if left <= 0 and self._received >= MUCH:  # a large reply is on its way
                self._received, left = 0, self.endpoint.reply_timeout
            if left <= 0:
                self._breaker.failed(self.endpoint, self._replies[0][1], "no reply in time")
                self.fail(LinkBroken("the server did not answer in time"))
            else:
                self._overdue = asyncio.get_running_loop().call_later(left, self._watch)

    def exchange(self, packet: bytes) -> None:
        """Send a packed command, and return None: `answer` has the reply; see `Link`."""
        self._latest = self._send(packet, 0)

    def exchange_all(self, packet: bytes, number: int) -> None:
        """Send packed commands, and return None: `answer` has the replies; see `Link`."""
        self._latest = self._send(packet, number)

    def answer(self) -> asyncio.Future[Any]:
        """Return what to await for the reply; see `Link`."""
        latest, self._latest = self._latest, None
        assert latest is not None  # noqa: S101 - `exchange` comes before
        return latest

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send packed commands at once and return their replies as they come; see `Link`."""
        replies: list[Any] = await self._send(commands, number)
        return replies

    def _send(self, packet: bytes, number: int) -> asyncio.Future[Any]:
        """Send `number` packed commands, and return what will have the list of their replies.

        If `number` is 0, it will have one reply, and no list.
        """
        if self.broken or self._transport is None or self._transport.is_closing():
            closed = LinkBroken("the connection was closed")
            self.fail(closed)  # so that it is not given out again
            raise closed
        loop = self._loop
        future: asyncio.Future[Any] = loop.create_future()
        # Sent and noted without an await between: replies match by order.
        try:
            self._transport.write(packet)
            self._replies.append((future, monotonic(), number, []))
        except BaseException as error:
            self.fail(LinkBroken(f"{type(error).__name__} came between a command and its reply"))
            raise
        if self._overdue is None:
            self._overdue = loop.call_later(self.endpoint.reply_timeout, self._watch)
        return future

    @property
    def is_waiting(self) -> bool:
        """Whether the server has yet to answer."""
        return bool(self._replies)

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        message = b"" if self.broken else await self._messages.look(token, timeout)
        if self.broken:
            raise LinkBroken(self._why)
        return message or None

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 when it is closed."""
        if self.broken or self._transport is None:
            return -1
        return int(self._transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        """Close the connection, so that the server grants nothing to its waiters any more."""
        self.fail(LinkBroken("the connection was closed"))

    async def aclose(self) -> None:
        """Close the connection and wait until the transport is gone."""
        self.close()
        await self._opening_bulk.aclose()
        if self._transport is not None:
            await self._closed
        if self._bulk is not None:
            await self._bulk.aclose()


class SharedOpening:
    """One attempt to open a link, shared by all tasks that want the link meanwhile.

    The attempt is a task of its own, so it goes on when a task that waits for it is cancelled.
    """

    def __init__(self, open_link: Callable[[], Coroutine[Any, Any, AsyncLink]]) -> None:
        self._open_link = open_link
        self._attempt: asyncio.Task[AsyncLink] | None = None

    async def link(self) -> AsyncLink:
        """Return the open link, or raise what ended the attempt.

        Raises Unreachable, LinkBroken or LockBackendError.
        """
        attempt = self._attempt
        if attempt is None:
            attempt = asyncio.create_task(self._open_link(), name="redis_locks-open")
            attempt.add_done_callback(self._end)
            self._attempt = attempt
        await asyncio.wait((attempt,))
        if attempt.cancelled():  # with all tasks of its loop, perhaps, of which some clean up
            raise LinkBroken("nobody opened the connection")
        error = attempt.exception()
        if isinstance(error, (LinkBroken, LockBackendError)):
            raise copy(error) from error  # each has its own: who catches it may add to it
        return attempt.result()

    def _end(self, attempt: asyncio.Task[AsyncLink]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # mark as seen: all who waited for it may be gone

    async def aclose(self) -> None:
        """End the attempt."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait((self._attempt,))


class AsyncDriver(WaitsInPlace):
    """The driver of one event loop."""

    suspends = True

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        self.pause_after = endpoint.pause_after
        self.renewer: Any = None
        """The renewer that uses this driver; kept here so that it ends with the loop."""
        self.breakers = (endpoint.breaker,)
        self._breaker = endpoint.breaker
        self._endpoint = endpoint
        self._prefix = prefix
        self._link: AsyncLink | None = None
        self._opening = SharedOpening(self._open)
        self._unshared: UnsharedDriver | None = None

    def unshared(self) -> AsyncDriver:
        """Return a driver that gives each user a link of its own, closed with this one."""
        if self._unshared is None:
            self._unshared = UnsharedDriver(self._endpoint, self._prefix)
        return self._unshared

    @property
    def is_open(self) -> bool:
        """Whether the loop's link is open. Then it gives up a silent server by itself."""
        return self._link is not None and not self._link.broken

    def take(self, token: str = "") -> Link | None:
        """Return the loop's link, which all its tasks share, if it is open."""
        link = self._link
        if link is None or link.broken or self._breaker.trouble:
            return None
        if token:
            link.listen(token)
        return link

    async def checkout(self, token: str = "") -> Link:
        """Return the link that the loop's tasks share; open it first if it is missing or broken."""
        if self._breaker.trouble:
            await self._breaker.admit(self.sleep)
        link = self._link
        if link is None or link.broken:
            link = await self._opening.link()
        if token:
            link.listen(token)
        return link

    async def _open(self) -> AsyncLink:
        link = AsyncLink(self._endpoint, self._prefix)
        await link.open()
        self._link = link
        return link

    def checkin(self, link: Link, token: str = "") -> None:
        """Forget `token`; the link is shared."""
        if token:
            cast("AsyncLink", link).unlisten(token)

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
        await self._opening.aclose()
        if self._link is not None:
            await self._link.aclose()


class UnsharedDriver(AsyncDriver):
    """Links of one event loop with one user at a time, for commands that block.

    The loop's shared link must not wait.
    """

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        super().__init__(endpoint, prefix)
        self._idle: list[tuple[AsyncLink, float]] = []
        """Those not in use, each with when it was given back; the last one is the next to be used.
        """
        self._closing: asyncio.TimerHandle | None = None

    def unshared(self) -> AsyncDriver:
        """Return this driver."""
        return self

    def take(self, token: str = "") -> Link | None:  # noqa: ARG002 - nobody waits on it
        """Return an idle link, if there is one; see `Driver`."""
        while self._idle:
            link, _ = self._idle.pop()
            if not link.broken:
                return link
        return None

    async def checkout(self, token: str = "") -> Link:  # noqa: ARG002 - nobody waits on it
        """Return an idle link, or a new one; see `Driver`."""
        if self._breaker.trouble:
            await self._breaker.admit(self.sleep)
        if (idle := self.take()) is not None:
            return idle
        link = AsyncLink(self._endpoint, self._prefix)
        await link.open()
        return link

    def checkin(self, link: Link, token: str = "") -> None:  # noqa: ARG002 - nobody waits on it
        """Give a link back.

        A broken one is dropped, and one whose user was cancelled before the reply.
        """
        if isinstance(link, AsyncLink) and not link.broken:
            if link.is_waiting:
                link.close()
            else:
                self._idle.append((link, monotonic()))
                if self._closing is None:
                    self._close_later()

    def _close_later(self) -> None:
        left = self._idle[0][1] + idle_connections.IDLE - monotonic()
        self._closing = asyncio.get_running_loop().call_later(max(left, 0.0), self._close_idle)

    def _close_idle(self) -> None:
        """Close the links that nobody has used for long, oldest first."""
        self._closing = None
        while self._idle and self._idle[0][1] + idle_connections.IDLE <= monotonic():
            self._idle.pop(0)[0].close()
        if self._idle:
            self._close_later()

    def drop_idle(self) -> None:
        """Close the links that are not in use."""
        while self._idle:
            self._idle.pop()[0].close()

    async def aclose(self) -> None:
        """Close the links that are not in use."""
        while self._idle:
            await self._idle.pop()[0].aclose()
