"""The asyncio connection: commands of all tasks of an event loop, and messages in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, cast

from redis import exceptions as redis_errors

from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connection_error, reply_error
from redis_locks.drivers.inheritance import not_inherited
from redis_locks.drivers.mailboxes import Mailboxes
from redis_locks.drivers.resp import (
    CONFIRMATIONS,
    MESSAGES,
    ErrorReply,
    Parser,
    ProtocolError,
    Push,
)
from redis_locks.drivers.server_link import ServerLink
from redis_locks.drivers.wire import pack_command
from redis_locks.values.identity import LISTENER, process_name, random_text
from redis_locks.values.keys import grant_channel, holder_channel


class AsyncLink(asyncio.Protocol, ServerLink):
    """A multiplexed connection: replies come in the order of the commands, grants in between.

    redis-py opens it (address, TLS, credentials, database); the bytes after that are ours.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        prefix: str,
        heard: Callable[[str], None] = lambda _: None,
        lost: Callable[[], None] = lambda: None,
        *,
        listener: str = "",
    ) -> None:
        """Make a link that `open` connects; with a `listener`, it is the bulk link of the one named so."""
        self._subscribes = not listener
        self.listener = listener or random_text(LISTENER)
        self._prefix = prefix
        self.channel = grant_channel(prefix, self.listener)
        self.channels: set[str] = set()
        self.broken = False
        self._why = ""
        self._ear = holder_channel(prefix, process_name()).encode()
        self._heard = heard
        self._lost = lost
        self._endpoint = endpoint
        self._parser = Parser()
        self._writer: asyncio.StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._replies: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._overdue: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._mailboxes = Mailboxes(self._loop)
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._received = 0
        self._bulk: AsyncLink | None = None
        self._opening_bulk = asyncio.Lock()

    async def open(self) -> None:
        """Connect and subscribe. Raises Unreachable, LinkBroken or LockBackendError."""
        connection = self._endpoint.async_connection()
        try:
            async with asyncio.timeout(self._endpoint.connect_timeout):
                await connection.connect()
            self._take_over(connection)
            if self._subscribes:
                await self._subscribe()
        except (redis_errors.RedisError, OSError, TimeoutError) as error:
            self.close()
            raise connection_error(error, self._endpoint) from error
        except BaseException:
            self.close()
            raise
        finally:
            with suppress(Exception):
                await connection.disconnect(nowait=True)  # nothing left to close after take-over

    async def _subscribe(self) -> None:
        # The nodes of a cluster pass on what is sent to the ear, but not grants.
        own = () if self._endpoint.in_cluster else (self.channel.encode(),)
        subscribe = [pack_command(b"SUBSCRIBE", each) for each in (*own, self._ear)]
        subscribed, *_ = await self.round_trip(b"".join(subscribe), len(subscribe))
        if isinstance(subscribed, ErrorReply):
            raise reply_error(subscribed, self._endpoint)

    async def bulk(self) -> AsyncLink:
        """Return the link for replies of any size, which all tasks share; see `Link`."""
        if self._bulk is not None and not self._bulk.broken:
            return self._bulk
        async with self._opening_bulk:
            if self._bulk is None or self._bulk.broken:
                self._bulk = AsyncLink(self._endpoint, self._prefix, listener=self.listener)
                await self._bulk.open()
            if self.broken:
                self._bulk.close()
                raise LinkBroken(self._why)
            return self._bulk

    def _take_over(self, connection: Any) -> None:
        # The only way to its transport. The writer is kept: it closes the transport when it goes.
        self._writer = connection._writer  # noqa: SLF001
        connection._reader = connection._writer = None  # noqa: SLF001
        self._transport = cast("asyncio.Transport", self._writer.transport)
        self._transport.set_protocol(self)
        not_inherited(self)
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Give replies to their callers, in order, and messages to who listens."""
        try:
            replies = self._parser.feed(data)
        except ProtocolError as error:
            self._break(LinkBroken(str(error)))
            return
        for reply in replies:
            if isinstance(reply, Push) and reply[0] not in CONFIRMATIONS:
                self._keep(reply)
            elif self._replies:
                future, _ = self._replies.popleft()
                if not future.done():  # else its caller was cancelled
                    future.set_result(reply)
            else:
                self._break(LinkBroken(f"{reply!r:.80} answers nothing that was asked"))
                return

    def _keep(self, push: Push) -> None:
        if push[0] == b"message" and push[1] == self._ear:
            self._heard(push[2].decode(errors="replace"))
        elif push[0] in MESSAGES:
            self._mailboxes.put(push[2])
        elif push[0] == b"sunsubscribe":
            self.channels.discard(push[1].decode())
            self._mailboxes.wake_all()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who waits that the connection is gone."""
        self._break(LinkBroken(str(exc or "the server closed the connection")))
        if not self._closed.done():
            self._closed.set_result(None)

    def _break(self, error: LinkBroken) -> None:
        was_broken, self.broken = self.broken, True
        self._why = self._why or str(error)
        if self._transport is not None:
            self._transport.abort()
        if self._overdue is not None:
            self._overdue.cancel()
        for future, _ in self._replies:
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark as seen: its caller may be gone
        self._replies.clear()
        self._mailboxes.wake_all()
        if self._bulk is not None:
            self._bulk.close()
        if not was_broken:
            self._lost()

    def _watch(self) -> None:
        """Break the link when a reply is overdue; one timer for all commands."""
        self._overdue = None
        if self._replies:
            left = self._replies[0][1] + self._endpoint.reply_timeout - monotonic()
            before, self._received = self._received, self._parser.unfinished()
            if left <= 0 and before != self._received != 0:  # a large reply is on its way
                left = self._endpoint.reply_timeout
            if left <= 0:
                self._break(LinkBroken("the server did not answer in time"))
            else:
                self._overdue = asyncio.get_running_loop().call_later(left, self._watch)

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send packed commands at once and return their replies as they come; see `Link`."""
        if self.broken or self._transport is None or self._transport.is_closing():
            closed = LinkBroken("the connection was closed")
            self._break(closed)  # so that it is not given out again
            raise closed
        loop = self._loop
        now = monotonic()
        # Sent and put in line without an await between: replies match by order.
        self._transport.write(commands)
        futures = []
        for _ in range(number):
            future = loop.create_future()
            futures.append(future)
            self._replies.append((future, now))
        if self._overdue is None:
            self._overdue = loop.call_later(self._endpoint.reply_timeout, self._watch)
        return [await future for future in futures]

    @property
    def is_waiting(self) -> bool:
        """Whether the server has yet to answer."""
        return bool(self._replies)

    def listen(self, token: str) -> None:
        """Keep messages for `token` from now on."""
        self._mailboxes.open(token)

    def unlisten(self, token: str) -> None:
        """Forget `token`."""
        self._mailboxes.close(token)

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        message = b"" if self.broken else await self._mailboxes.look(token, timeout)
        if self.broken:
            raise LinkBroken(self._why)
        return message or None

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 when it is closed."""
        if self.broken or self._transport is None:
            return -1
        return int(self._transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        """Close the connection; the server then knows that nobody listens."""
        self._lost = lambda: None
        self._break(LinkBroken("the connection was closed"))

    async def aclose(self) -> None:
        """Close the connection and wait until the transport is gone."""
        self.close()
        if self._transport is not None:
            await self._closed
        if self._bulk is not None:
            await self._bulk.aclose()
