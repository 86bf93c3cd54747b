"""The asyncio driver: one connection per event loop carries all commands and all grants."""

from __future__ import annotations

import asyncio
import math
import os
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis import exceptions as redis_errors

from redis_locks.drivers.base import Call, Link, LinkBroken
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connection_error, reply_error
from redis_locks.drivers.wire import pack_call
from redis_locks.keys import grant_channel
from redis_locks.scripts import Script

T = TypeVar("T")

_PUSH = object()


class AsyncLink:
    """A multiplexed connection: replies come in the order of the commands, grants in between."""

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.channel = grant_channel(prefix, os.urandom(8).hex())
        self.broken = False
        self._endpoint = endpoint
        self._connection = endpoint.async_connection()
        self._replies: deque[asyncio.Future[Any]] = deque()
        self._listeners: dict[bytes, asyncio.Future[bytes]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and subscribe. Raises Unreachable or LockBackendError."""
        try:
            async with asyncio.timeout(self._endpoint.connect_timeout):
                await self._connection.connect()
                parser = self._connection._parser  # noqa: SLF001 - the only way to hear pushes
                parser.pubsub_push_handler_func = self._heard
                await self._connection.send_command("SUBSCRIBE", self.channel, check_health=False)
                await self._connection.read_response(push_request=True)
        except (redis_errors.RedisError, OSError, TimeoutError) as error:
            await self._disconnect()
            raise connection_error(error, self._endpoint.description) from error
        except BaseException:
            await self._disconnect()
            raise
        self._reader = asyncio.create_task(self._read(), name="redis_locks-reader")

    async def _heard(self, push: list[bytes]) -> object:
        if push[0] == b"message":
            listener = self._listeners.get(push[2].split(b" ", 1)[0])
            if listener is not None and not listener.done():
                listener.set_result(push[2])
        return _PUSH

    async def _read(self) -> None:
        error: BaseException = LinkBroken("the connection was closed")
        try:
            while True:
                reply: Any
                try:
                    reply = await self._connection.read_response(
                        disable_decoding=True,
                        timeout=math.inf,
                        push_request=True,
                        disconnect_on_error=False,
                    )
                except redis_errors.ResponseError as refused:
                    reply = refused
                if reply is _PUSH:
                    continue
                future = self._replies.popleft()
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(reply, Exception):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (redis_errors.RedisError, OSError) as failure:
            error = LinkBroken(str(failure))
        finally:
            self._break(error)
            await self._disconnect()

    def _break(self, error: BaseException) -> None:
        self.broken = True
        for future in (*self._replies, *self._listeners.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark as seen: its caller may be gone
        self._replies.clear()

    async def _command(self, packed: bytes) -> Any:
        connection = self._connection
        writer = connection._writer  # noqa: SLF001 - see below
        # `writelines` of a closed transport (Python 3.12 and 3.13) makes the event loop watch
        # a file descriptor that may be another connection's by now, which then hangs.
        if self.broken or writer is None or writer.is_closing():
            msg = "the connection was closed"
            raise LinkBroken(msg)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # No await between these two lines and the write: replies match by order.
        self._replies.append(future)
        try:
            async with asyncio.timeout(self._endpoint.reply_timeout):
                await connection.send_packed_command(packed, check_health=False)
                return await future
        except (redis_errors.ConnectionError, OSError, TimeoutError) as error:
            await self.close()
            raise LinkBroken(str(error)) from error

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script; see `Link`."""
        try:
            try:
                return await self._command(pack_call(script, call))
            except redis_errors.NoScriptError:
                return await self._command(pack_call(script, call, whole=True))
        except redis_errors.ResponseError as error:
            raise reply_error(error, self._endpoint.description) from error

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times; the commands share the connection's buffer. See `Link`."""
        replies = await asyncio.gather(
            *(self.call(script, call) for call in calls), return_exceptions=True
        )
        for reply in replies:
            if isinstance(reply, LinkBroken):
                raise reply
        return replies

    def listen(self, token: str) -> None:
        """Keep messages for `token` from now on."""
        self._listeners[token.encode()] = asyncio.get_running_loop().create_future()

    def unlisten(self, token: str) -> None:
        """Forget `token`."""
        self._listeners.pop(token.encode(), None)

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        if self.broken:
            msg = "the connection was closed"
            raise LinkBroken(msg)
        listener = self._listeners[token.encode()]
        done, _ = await asyncio.wait((listener,), timeout=timeout)
        if not done:
            return None
        message = listener.result()
        self.listen(token)
        return message

    async def close(self) -> None:
        """Close the connection; the server then knows that nobody listens."""
        self.broken = True
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
            await asyncio.wait((self._reader,))
        await self._disconnect()

    async def _disconnect(self) -> None:
        with suppress(Exception):
            await self._connection.disconnect(nowait=True)


class AsyncDriver:
    """The driver of one event loop."""

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self.renewer: Any = None
        """Whoever renews over this driver leaves itself here, to end with the loop."""
        self._endpoint = endpoint
        self._prefix = prefix
        self._link: AsyncLink | None = None
        self._opening = asyncio.Lock()

    async def checkout(self) -> Link:
        """Return the loop's link; open it first if it is not there or broken."""
        link = self._link
        if link is not None and not link.broken:
            return link
        async with self._opening:
            if self._link is None or self._link.broken:
                link = AsyncLink(self._endpoint, self._prefix)
                await link.open()
                self._link = link
            return self._link

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
        if self._link is not None:
            await self._link.close()


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
