"""The asyncio driver: one connection per event loop carries all commands and all grants."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar, cast

from redis import exceptions as redis_errors

from redis_locks.drivers.base import Call, Link, LinkBroken
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import Demoted, connection_error, reply_error, unknown_script
from redis_locks.drivers.inheritance import not_inherited
from redis_locks.drivers.resp import (
    CONFIRMATIONS,
    MESSAGES,
    ErrorReply,
    Parser,
    ProtocolError,
    Push,
)
from redis_locks.drivers.wire import pack_call, pack_command
from redis_locks.identity import process_name
from redis_locks.keys import grant_channel, holder_channel
from redis_locks.scripts import Script

T = TypeVar("T")


class _Mailbox:
    """The latest message for one token, and who waits for it."""

    __slots__ = ("message", "reader")

    def __init__(self) -> None:
        self.message = b""
        self.reader: asyncio.Future[None] | None = None

    def wake(self, error: Exception | None = None) -> None:
        if self.reader is not None and not self.reader.done():
            if error is None:
                self.reader.set_result(None)
            else:
                self.reader.set_exception(error)


class AsyncLink(asyncio.Protocol):
    """A multiplexed connection: replies come in the order of the commands, grants in between.

    redis-py opens it (address, TLS, credentials, database); the bytes after that are ours.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        prefix: str,
        heard: Callable[[str], None] = lambda _: None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.listener = os.urandom(8).hex()
        self.channel = grant_channel(prefix, self.listener)
        self.channels: set[str] = set()
        self.broken = False
        self._ear = holder_channel(prefix, process_name()).encode()
        self._heard = heard
        self._lost = lost
        self._endpoint = endpoint
        self._parser = Parser()
        self._writer: asyncio.StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._replies: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._mailboxes: dict[bytes, _Mailbox] = {}
        self._overdue: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Connect and subscribe. Raises Unreachable, LinkBroken or LockBackendError."""
        connection = self._endpoint.async_connection()
        try:
            async with asyncio.timeout(self._endpoint.connect_timeout):
                await connection.connect()
            self._take_over(connection)
            # The nodes of a cluster pass on what is sent to the ear, but not grants.
            own = () if self._endpoint.in_cluster else (self.channel.encode(),)
            subscribed, *_ = await self._round_trip(
                [pack_command(b"SUBSCRIBE", each) for each in (*own, self._ear)]
            )
        except (redis_errors.RedisError, OSError, TimeoutError) as error:
            self.close()
            raise connection_error(error, self._endpoint) from error
        except BaseException:
            self.close()
            raise
        finally:
            with suppress(Exception):
                await connection.disconnect(nowait=True)  # nothing left to close after take-over
        if isinstance(subscribed, ErrorReply):
            self.close()
            raise reply_error(subscribed, self._endpoint)

    async def tune_in(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: one channel serves all locks."""

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

    def _keep(self, push: Push) -> None:
        if push[0] == b"message" and push[1] == self._ear:
            self._heard(push[2].decode(errors="replace"))
        elif push[0] in MESSAGES:
            mailbox = self._mailboxes.get(push[2].split(b" ", 1)[0])
            if mailbox is not None:
                mailbox.message = push[2]
                mailbox.wake()
        elif push[0] == b"sunsubscribe":
            self.channels.discard(push[1].decode())
            for each in self._mailboxes.values():
                each.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who waits that the connection is gone."""
        self._break(LinkBroken(str(exc or "the server closed the connection")))
        if not self._closed.done():
            self._closed.set_result(None)

    def _break(self, error: LinkBroken) -> None:
        was_broken, self.broken = self.broken, True
        if self._transport is not None:
            self._transport.abort()
        if self._overdue is not None:
            self._overdue.cancel()
        for future, _ in self._replies:
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark as seen: its caller may be gone
        self._replies.clear()
        for mailbox in self._mailboxes.values():
            mailbox.wake(error)
        if not was_broken:
            self._lost()

    def _watch(self) -> None:
        """Break the link when a reply is overdue; one timer for all commands."""
        self._overdue = None
        if self._replies:
            left = self._replies[0][1] + self._endpoint.reply_timeout - monotonic()
            if left <= 0:
                self._break(LinkBroken("the server did not answer in time"))
            else:
                self._overdue = asyncio.get_running_loop().call_later(left, self._watch)

    async def _round_trip(self, commands: Sequence[bytes]) -> list[Any]:
        if self.broken or self._transport is None or self._transport.is_closing():
            closed = LinkBroken("the connection was closed")
            self._break(closed)  # so that it is not given out again
            raise closed
        loop = asyncio.get_running_loop()
        now = monotonic()
        # Sent and put in line without an await between: replies match by order.
        self._transport.write(b"".join(commands))
        futures = [loop.create_future() for _ in commands]
        self._replies.extend((future, now) for future in futures)
        if self._overdue is None:
            self._overdue = loop.call_later(self._endpoint.reply_timeout, self._watch)
        return [await future for future in futures]

    @property
    def is_waiting(self) -> bool:
        """Whether the server has yet to answer."""
        return bool(self._replies)

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script; see `Link`."""
        reply, _ = await self.call_and_read(script, call, ())
        return reply

    async def call_and_read(
        self, script: Script, call: Call, reads: Sequence[bytes]
    ) -> tuple[Any, list[Any]]:
        """Run a script and commands after it in one round trip; see `Link`."""
        reply, *rest = await self._round_trip((pack_call(script, call), *reads))
        if unknown_script(reply):
            reply, *rest = await self._round_trip((pack_call(script, call, whole=True), *reads))
        if isinstance(reply, ErrorReply):
            raise self._refusal(reply)
        return reply, rest

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:  # noqa: ARG002 - as `Link`
        """Run commands in one round trip; see `Link`."""
        return await self._round_trip(reads)

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; see `Link`."""
        for whole in (False, True):
            replies = await self._round_trip(
                [pack_call(script, call, whole=whole) for call in calls]
            )
            if not any(map(unknown_script, replies)):
                break
        return [
            self._refusal(reply) if isinstance(reply, ErrorReply) else reply for reply in replies
        ]

    def _refusal(self, reply: ErrorReply) -> Exception:
        error = reply_error(reply, self._endpoint)
        if isinstance(error, Demoted):
            self._break(error)
        return error

    def listen(self, token: str) -> None:
        """Keep messages for `token` from now on."""
        self._mailboxes[token.encode()] = _Mailbox()

    def unlisten(self, token: str) -> None:
        """Forget `token`."""
        self._mailboxes.pop(token.encode(), None)

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        if self.broken:
            msg = "the connection was closed"
            raise LinkBroken(msg)
        mailbox = self._mailboxes[token.encode()]
        if not mailbox.message and timeout > 0:
            loop = asyncio.get_running_loop()
            mailbox.reader = loop.create_future()
            timer = loop.call_later(timeout, mailbox.wake)
            try:
                await mailbox.reader
            finally:
                timer.cancel()
                mailbox.reader = None
        message, mailbox.message = mailbox.message, b""
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


class AsyncDriver:
    """The driver of one event loop."""

    suspends = True

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
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


_Registered = tuple[
    "weakref.ref[asyncio.AbstractEventLoop]", AsyncDriver, AsyncGenerator[None, None]
]


class LoopDrivers:
    """One `AsyncDriver` per running event loop, closed with its loop.

    A WeakKeyDictionary would never let go, because the transport refers to the loop.
    Instead an async generator per loop is started and left suspended: whoever closes the
    loop properly shuts its async generators down, and ours closes the driver.
    """

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self._endpoint = endpoint
        self._prefix = prefix
        self._by_loop: dict[int, _Registered] = {}

    async def get(self) -> AsyncDriver:
        """Return the running loop's driver."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        driver = AsyncDriver(self._endpoint, self._prefix)
        guard = self._closing(id(loop), driver)
        self._by_loop[id(loop)] = (weakref.ref(loop), driver, guard)
        await anext(guard)
        return driver

    async def _closing(self, key: int, driver: AsyncDriver) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._by_loop.pop(key, None)
            await driver.aclose()
