"""Blocking connections: `async def` methods that never suspend."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from redis import exceptions as redis_errors

from redis_locks.drivers.base import PARKED, Answered, LinkBroken, run_blocking
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connection_error, reply_error
from redis_locks.drivers.inheritance import not_inherited
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

_READ_SIZE = 65536
_LARGE = 1 << 20
_PING = pack_command(b"PING")


class BlockingLink(ServerLink):
    """A connection used by one thread at a time; it hears grants on a channel of its own.

    redis-py opens it (address, TLS, credentials, database); the bytes after that are ours.
    """

    __slots__ = (
        "__weakref__",
        "_bulk",
        "_connection",
        "_endpoint",
        "_message",
        "_parks",
        "_parser",
        "_socket",
        "_timeout",
        "_token",
        "broken",
        "channel",
        "channels",
        "large",
        "listener",
        "quick_keys",
        "seats",
    )

    def __init__(self, endpoint: Endpoint, channel: str, listener: str = "") -> None:
        """Connect and subscribe to `channel`, if it is not empty; scripts know it as `listener`.

        Raises Unreachable, LinkBroken or LockBackendError.
        """
        self.channel = channel
        self.channels: set[str] = set()
        self.listener = listener
        self.broken = self.large = False
        self._bulk: BlockingLink | None = None
        self.quick_keys: frozenset[bytes] | None = None
        self._parks = False
        self.seats: set[int] | None = None
        """Of the driver: has our id while a thread waits on it with us."""
        self._endpoint = endpoint
        self._timeout = endpoint.reply_timeout
        self._token = self._message = b""
        self._parser = Parser()
        self._connection = cast("Any", endpoint.blocking_connection())
        try:
            self._connection.connect()
        except (redis_errors.RedisError, OSError) as error:
            self.close()
            raise connection_error(error, endpoint) from error
        except BaseException:
            self.close()
            raise
        self._socket = self._connection._sock  # noqa: SLF001 - redis-py reads no push without its own parser
        not_inherited(self)
        if channel:
            subscribe = pack_command(b"SUBSCRIBE", channel.encode())
            (subscribed,) = run_blocking(self.round_trip(subscribe, 1))
            if isinstance(subscribed, ErrorReply):
                self.close()
                raise reply_error(subscribed, endpoint)

    def __del__(self) -> None:
        seats = getattr(self, "seats", None)  # None, too, if its making was interrupted
        if seats is not None:  # dropped by an interrupt before it was given back
            seats.discard(id(self))
            self.close()

    def _close_for(self, error: BaseException) -> None:
        """Close; raises LinkBroken for what the connection is to blame for.

        Interrupted between a command and its reply, the next command would get that reply.
        """
        self.close()
        if isinstance(error, (OSError, ProtocolError)):
            raise LinkBroken(str(error)) from error

    def _keep(self, push: Push) -> None:
        if push[0] in MESSAGES:
            if push[2].split(b" ", 1)[0] == self._token:
                self._message = push[2]
        elif push[0] == b"sunsubscribe":
            self.channels.discard(push[1].decode())

    async def bulk(self) -> BlockingLink:
        """Return the link for replies of any size; see `Link`."""
        if self._bulk is None or self._bulk.broken:
            self._bulk = BlockingLink(self._endpoint, "", self.listener)
        return self._bulk

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send packed commands at once and return their replies as they come; see `Link`."""
        try:
            self._socket.sendall(commands)
            came = self._parser.feed(self._socket.recv(_READ_SIZE))
            self.large = False
            if len(came) == number and Push not in map(type, came):
                return came
            return self._replies(came, number)
        except BaseException as error:
            self._close_for(error)
            raise

    def _replies(self, came: list[Any], number: int) -> list[Any]:
        """Return so many replies, of what came already and what comes yet."""
        replies: list[Any] = []
        received = 0
        while True:
            for reply in came:
                if type(reply) is Push and reply[0] not in CONFIRMATIONS:
                    self._keep(reply)
                else:
                    replies.append(reply)
            if len(replies) > number:
                self.close()  # out of step: what is asked next would get another reply
            if len(replies) >= number:
                self.large = received > _LARGE
                return replies
            data = self._socket.recv(_READ_SIZE)
            received += len(data)
            came = self._parser.feed(data)

    def listen(self, token: str) -> None:
        """Keep messages for `token`, and no others, from now on."""
        self._token, self._message = token.encode(), b""

    def unlisten(self, token: str) -> None:
        """Forget `token`."""
        if token.encode() == self._token:
            self._token = self._message = b""

    async def receive(self, token: str, timeout: float) -> bytes | None:  # noqa: ARG002 - it listens for one only
        """Wait for a message for `token`; see `Link`."""
        until = time.monotonic() + timeout
        channels = len(self.channels)
        try:
            while not self._message:
                left = until - time.monotonic()
                if left <= 0 or len(self.channels) < channels:
                    return None
                self._socket.settimeout(left)
                try:
                    for push in self._parser.feed(self._socket.recv(_READ_SIZE)):
                        self._keep(push)
                except TimeoutError:
                    return None
                finally:
                    self._socket.settimeout(self._timeout)
        except BaseException as error:
            self._close_for(error)
            raise
        message, self._message = self._message, b""
        return message

    def can_skip_replies(self) -> bool:
        """Whether it hears what its own scripts tell it; see `Link`.

        Before Redis 7.0.10, `CLIENT REPLY SKIP` held back messages, too (https://github.com/redis/redis/pull/11875).
        """
        hello = self._connection.handshake_metadata or {}
        server, version = (
            _text(hello.get(key.encode(), hello.get(key))) for key in ("server", "version")
        )
        return not (server == "redis" and re.fullmatch(r"7\.0\.\d", version))

    async def listens_parked(self) -> bool:
        """Whether it listens, from now on, where it is told of its turn; see `Link`."""
        if not self._parks:
            subscribe = pack_command("SUBSCRIBE", f"{self.channel}{PARKED}")
            (reply,) = await self.round_trip(subscribe, 1)
            self._parks = isinstance(reply, Push)
        return self._parks

    async def message_after(self, commands: bytes, token: bytes, timeout: float) -> bytes | None:
        """Send packed commands, and wait for a message in place of replies; see `Link`."""
        start = token + b" "
        left, until = timeout, time.monotonic() + timeout
        try:
            self._socket.sendall(commands)
            while left > 0:
                self._socket.settimeout(left)
                try:
                    pushes = self._parser.feed(self._socket.recv(_READ_SIZE))
                except TimeoutError:
                    return None
                finally:
                    self._socket.settimeout(self._timeout)
                for push in pushes:
                    if not isinstance(push, Push):
                        raise _answered(push)
                    if push[0] == b"message" and push[2].startswith(start):
                        return bytes(push[2])
                left = until - time.monotonic()
        except BaseException as error:
            self._close_for(error)
            raise
        return None

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 when it is closed."""
        return -1 if self.broken else int(self._socket.fileno())

    def _break(self, error: LinkBroken) -> None:  # noqa: ARG002 - nobody else waits on it
        self.close()

    def close(self) -> None:
        """Close the connection; the server then knows that nobody listens."""
        self.broken = True
        self._connection.disconnect()
        if self._bulk is not None:
            self._bulk.close()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _answered(reply: object) -> Answered:
    return Answered(f"{reply!r} answers what was to have no reply")


class EarLink(BlockingLink):
    """A connection that only listens."""

    __slots__ = ("_heard", "_tested")

    def __init__(self, endpoint: Endpoint, channel: str) -> None:
        """Connect and subscribe to `channel`; see `BlockingLink`."""
        self._heard: list[str] = []
        self._tested = False
        super().__init__(endpoint, channel)

    def _keep(self, push: Push) -> None:
        if push[0] == b"message":
            self._heard.append(push[2].decode(errors="replace"))

    def hear(self, heard: Callable[[str], None], silence: float | None = None) -> None:
        """Call `heard` with each message, until the connection breaks; see `HearingLink`."""
        try:
            self._socket.settimeout(silence)
            while True:
                try:
                    replies = self._parser.feed(self._socket.recv(_READ_SIZE))
                except TimeoutError:
                    if self._tested:
                        raise
                    self._tested = True
                    self._socket.sendall(_PING)
                    return
                self._tested = False
                for reply in replies:
                    if isinstance(reply, Push):
                        self._keep(reply)
                while self._heard:
                    heard(self._heard.pop(0))
        except BaseException as error:
            self._close_for(error)
            raise

    def close(self) -> None:
        """Close the connection; wakes the thread that listens."""
        with suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)
        super().close()
