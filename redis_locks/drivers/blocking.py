"""The blocking driver: `async def` methods that never suspend."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from redis import exceptions as redis_errors

from redis_locks.drivers.base import Call, Link, LinkBroken
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connection_error, reply_error
from redis_locks.drivers.wire import pack_call
from redis_locks.keys import grant_channel
from redis_locks.scripts import Script

T = TypeVar("T")

_CONNECTION_ERRORS = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)

# What the push handler returns for a push, so that a read tells it from a reply.
_PUSH = object()


class BlockingLink:
    """A connection used by one thread at a time; it hears grants on a channel of its own."""

    __slots__ = ("_connection", "_description", "_messages", "broken", "channel")

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        """Connect and subscribe. Raises Unreachable or LockBackendError."""
        self.channel = grant_channel(prefix, os.urandom(8).hex())
        self.broken = False
        self._description = endpoint.description
        self._messages: dict[bytes, bytes] = {}
        self._connection = cast("Any", endpoint.blocking_connection())
        try:
            self._connection.connect()
            parser = self._connection._parser  # noqa: SLF001 - the only way to hear pushes
            parser.set_pubsub_push_handler(self._heard)
            self._connection.send_command("SUBSCRIBE", self.channel, check_health=False)
            self._connection.read_response(push_request=True)
        except (redis_errors.RedisError, OSError) as error:
            self.close()
            raise connection_error(error, self._description) from error
        except BaseException:
            self.close()
            raise

    def _heard(self, push: list[bytes]) -> object:
        if push[0] == b"message":
            token = push[2].split(b" ", 1)[0]
            if token in self._messages:
                self._messages[token] = push[2]
        return _PUSH

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script; see `Link`."""
        connection = self._connection
        try:
            connection.send_packed_command((pack_call(script, call),), check_health=False)
            reply = connection.read_response(disable_decoding=True)
        except redis_errors.NoScriptError:
            reply = self._eval(script, call)
        except redis_errors.ResponseError as error:
            raise reply_error(error, self._description) from error
        except _CONNECTION_ERRORS as error:
            self.close()
            raise LinkBroken(str(error)) from error
        except BaseException:
            # Interrupted in the middle of a reply: the next reader would get the wrong one.
            self.close()
            raise
        return reply

    def _eval(self, script: Script, call: Call) -> Any:
        reply = self._round_trip([pack_call(script, call, whole=True)])[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; see `Link`."""
        replies = self._round_trip([pack_call(script, call) for call in calls])
        if any(
            isinstance(reply.__cause__, redis_errors.NoScriptError)
            for reply in replies
            if isinstance(reply, Exception)
        ):
            replies = self._round_trip([pack_call(script, call, whole=True) for call in calls])
        return replies

    def _round_trip(self, commands: list[bytes]) -> list[Any]:
        connection = self._connection
        replies: list[Any] = []
        try:
            connection.send_packed_command((b"".join(commands),), check_health=False)
            for _ in commands:
                try:
                    replies.append(connection.read_response(disable_decoding=True))
                except redis_errors.ResponseError as error:
                    failure = reply_error(error, self._description)
                    failure.__cause__ = error
                    replies.append(failure)
        except _CONNECTION_ERRORS as error:
            self.close()
            raise LinkBroken(str(error)) from error
        except BaseException:
            self.close()
            raise
        return replies

    def listen(self, token: str) -> None:
        """Keep messages for `token` from now on."""
        self._messages[token.encode()] = b""

    def unlisten(self, token: str) -> None:
        """Forget `token`."""
        self._messages.pop(token.encode(), None)

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        key = token.encode()
        until = time.monotonic() + timeout
        while not self._messages[key]:
            left = until - time.monotonic()
            if left <= 0:
                return None
            try:
                self._connection.read_response(
                    disable_decoding=True,
                    timeout=left,
                    push_request=True,
                    disconnect_on_error=False,
                )
            except redis_errors.TimeoutError:
                continue
            except _CONNECTION_ERRORS as error:
                self.close()
                raise LinkBroken(str(error)) from error
            except BaseException:
                self.close()
                raise
        message, self._messages[key] = self._messages[key], b""
        return message

    def close(self) -> None:
        """Close the connection; the server then knows that nobody listens."""
        self.broken = True
        self._connection.disconnect()


class BlockingDriver:
    """A pool of links for all threads of a process.

    It has no upper bound: a thread that waits keeps its link, and whoever is to release
    the lock it waits for must never have to wait for a link.
    """

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self.description = endpoint.description
        self._endpoint = endpoint
        self._prefix = prefix
        self._idle: deque[BlockingLink] = deque()
        _DRIVERS.add(self)

    async def checkout(self) -> Link:
        """Return an idle link, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return BlockingLink(self._endpoint, self._prefix)

    def checkin(self, link: Link) -> None:
        """Give a link back; a broken one is dropped."""
        if isinstance(link, BlockingLink) and not link.broken:
            self._idle.append(link)

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

    def forget(self) -> None:
        """Drop inherited links after a fork: their sockets are the parent's."""
        self._idle = deque()


_DRIVERS: weakref.WeakSet[BlockingDriver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in _DRIVERS:
        driver.forget()


os.register_at_fork(after_in_child=_after_fork)
