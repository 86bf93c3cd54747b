"""The blocking driver: connections for the threads of a process.

All its `async def` methods block and never suspend; `base.run_blocking` runs them.
`connections.backends` makes one driver for each server, `cluster` one for each node.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import PARKED, Answered, Link, LinkBroken, OutOfTime, run_blocking
from redis_locks.drivers.breaker import Breaker
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connecting
from redis_locks.drivers.fork_safety import close_in_children
from redis_locks.drivers.idle_connections import LOOKS, reaper
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
from redis_locks.drivers.shared_subscription import SharedLink, SharedSubscription
from redis_locks.drivers.time_limits import MUCH, go_on, is_limited, seconds_left
from redis_locks.drivers.wake_events import ThreadWakeEvent
from redis_locks.values.identity import LISTENER, process_name, random_text
from redis_locks.values.interrupts import is_interrupt, is_thrown
from redis_locks.values.keys import grant_channel, holder_channel

T = TypeVar("T")

ALONE: Final = 4
"""Most threads that wait with a connection of their own. All others share one."""

FEW: Final = 8
"""With so many connections open, a thread first waits up to `GROWTH` for one that is given back."""

GROWTH: Final = 0.025
"""Seconds after which one of the threads that wait for a connection may open one more."""

_LISTENING = 2
"""The connections of a process that only listen: for grants, and for holds that others end."""

_READ_SIZE = 65536
_LARGE = 1 << 20
_KEPT = 16
"""Most messages to keep for `receive`. A link gets late ones for a few earlier tokens, too."""
_PING = pack((b"PING",))


class BlockingLink(ServerLink):
    """A connection used by one thread at a time, subscribed to a channel of its own for grants.

    redis-py opens the connection (address, TLS, credentials, database). After that only its socket
    is used.
    """

    __slots__ = (
        "__weakref__",
        "_bulk",
        "_connection",
        "_messages",
        "_parks",
        "_received",
        "_socket",
        "_timeout",
        "broken",
        "channel",
        "channels",
        "endpoint",
        "large",
        "listener",
        "looks",
        "quick_keys",
        "reader",
        "tails",
        "waiting_links",
    )

    def __init__(self, endpoint: Endpoint, channel: str, listener: str = "") -> None:
        """Connect and subscribe to `channel`, if it is not empty; scripts know it as `listener`.

        Raises Unreachable, LinkBroken or LockBackendError.
        """
        self.channel = channel
        self.channels: set[str] = set()
        self.listener = listener
        self.broken = self.large = False
        self.looks = 0
        """How often `idle_connections` has looked at it since it was given back."""
        self.tails: dict[object, str] = {}
        self._bulk: BlockingLink | None = None
        self.quick_keys: frozenset[bytes] | None = None
        self._parks = False
        self._received = 0
        """How many bytes have come since the last question."""
        self.waiting_links: set[int] | None = None
        """The driver's ids of links on which a thread waits, while ours is one of them."""
        self.endpoint = endpoint
        self._timeout = endpoint.reply_timeout
        self._messages: deque[bytes] = deque(maxlen=_KEPT)
        self.reader = endpoint.reader()
        # Its slot comes before that of the socket, which it closes when both go.
        self._connection = cast("Any", endpoint.blocking_connection())
        with connecting(endpoint, self.close):
            self._connection.connect()
        # redis-py reads no push without its own parser.
        self._socket = self._connection._sock  # noqa: SLF001
        self._socket.settimeout(self._timeout)
        close_in_children(self)
        if channel:
            subscribe = pack((b"SUBSCRIBE", channel.encode()))
            (subscribed,) = run_blocking(self.round_trip(subscribe, 1))
            if isinstance(subscribed, ErrorReply):
                self.close()
                raise reply_error(subscribed, endpoint)
        if endpoint.breaker.trouble:
            endpoint.breaker.heard()

    def __del__(self) -> None:
        # None, too, if its making was interrupted.
        waiting_links = getattr(self, "waiting_links", None)
        if waiting_links is not None:  # dropped by an interrupt before it was given back
            waiting_links.discard(id(self))
            self.close()

    def close_for(self, error: BaseException) -> None:
        """Close the connection. Raises LinkBroken if the connection caused the error.

        After an interrupt between a command and its reply, the next command would get that reply.
        """
        self.close()
        if isinstance(error, TimeoutError) and not is_thrown(error):
            waited = self._socket.gettimeout() or self._timeout
            began = time.monotonic() - waited
            self.endpoint.breaker.failed(self.endpoint, began, "no reply in time")
        if isinstance(error, ProtocolError) or not is_thrown(error):
            raise LinkBroken(str(error)) from error

    def _without_messages(self, came: list[Any]) -> list[Any]:
        """Return the replies among what has come, and keep the messages."""
        replies = []
        for each in came:
            if type(each) is Push and each[0] not in CONFIRMATIONS:
                self._keep(each)
            else:
                replies.append(each)
        return replies

    def _keep(self, push: Push) -> None:
        if push[0] in MESSAGES:
            self._messages.append(push[2])
        elif push[0] == b"sunsubscribe":
            self.channels.discard(push[1].decode())

    @property
    def open_bulk(self) -> BlockingLink | None:
        """The link for replies of any size, if it is open; see `Link`."""
        bulk = self._bulk
        return bulk if bulk is not None and not bulk.broken else None

    async def bulk(self) -> BlockingLink:
        """Return the link for replies of any size; see `Link`."""
        if self._bulk is None or self._bulk.broken:
            try:
                self._bulk = BlockingLink(self.endpoint, "", self.listener)
            except LinkBroken:
                self.close()  # else it would count as an answer that it is given back
                raise
        return self._bulk

    def exchange(self, packet: bytes) -> Any:
        """Send a packed command, and return its reply, unconverted; see `Link`."""
        reader = self.reader
        try:
            self._socket.sendall(packet)
            reader.feed(self._socket.recv(_READ_SIZE))
            reply, more = reader.gets(), reader.gets()
            if more is not UNFINISHED or type(reply) is not bytes:
                came = [each for each in (reply, more) if each is not UNFINISHED]
                came += iter(reader.gets, UNFINISHED)
                self._received = 0
                (reply,) = self._completed(came, 1)
                if reply is None:
                    raise ProtocolError("the server answered nothing")
        except BaseException as error:
            self.close_for(error)
            raise
        return reply

    def _completed(self, replies: list[Any], number: int) -> list[Any]:
        """Return so many replies, of which some have come; keep the messages.

        The rest has the time for a reply, whatever the pieces in which it comes, and that again
        once bytes are many.
        """
        longest, much, until = self._timeout, MUCH, 0.0
        while True:
            if Push in map(type, replies):
                replies = self._without_messages(replies)
            if len(replies) >= number:
                break
            now = time.monotonic()
            if self._received >= much:
                much, until = self._received + MUCH, now + longest
                go_on(longest)
            until = until or now + longest
            left = seconds_left(until - now)
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)
            replies += self._receive()
        if until:
            self._socket.settimeout(longest)
        if len(replies) > number:
            self.close()  # out of step: what is asked next would get another reply
            del replies[number:]
        return replies

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send packed commands at once and return their replies as they come; see `Link`."""
        return self.exchange_all(commands, number)

    def exchange_all(self, packet: bytes, number: int) -> list[Any]:
        """Send packed commands, and return their replies; see `Link`."""
        try:
            self._received = 0
            limited = is_limited()
            if limited:
                self._socket.settimeout(seconds_left(self._timeout))
            self._socket.sendall(packet)
            if limited:
                self._socket.settimeout(seconds_left(self._timeout))
            replies = self._completed(self._receive(), number)
            if limited:
                self._socket.settimeout(self._timeout)
        except BaseException as error:
            self.close_for(error)
            raise
        self.large = self._received > _LARGE
        return replies

    def _receive(self) -> list[Any]:
        """Wait for bytes and return the replies that are complete now, perhaps none."""
        data = self._socket.recv(_READ_SIZE)
        if not data:
            raise ProtocolError("the server closed the connection")
        self._received += len(data)
        reader = self.reader
        reader.feed(data)
        return [*iter(reader.gets, UNFINISHED)]

    def listen(self, token: str) -> None:
        """Nothing to do: it keeps all messages, and `receive` says for which token."""

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message for `token`; see `Link`."""
        wanted = token.encode()
        until = time.monotonic() + timeout
        channels = len(self.channels)
        try:
            while (message := self.message_for(wanted)) is None:
                left = until - time.monotonic()
                if left <= 0 or len(self.channels) < channels:
                    return None
                for push in self._receive_within(left):
                    self._keep(push)
        except BaseException as error:
            self.close_for(error)
            raise
        return message

    def message_for(self, token: bytes) -> bytes | None:
        """Return the last message for a token and drop all messages; see `Link`."""
        messages = reversed(self._messages)
        found = next((each for each in messages if each.split(b" ", 1)[0] == token), None)
        if found is not None:
            self._messages.clear()
        return found

    def _receive_within(self, seconds: float) -> list[Any]:
        """Return the replies that are complete within so many seconds, perhaps none."""
        self._socket.settimeout(seconds)
        try:
            return self._receive()
        except TimeoutError as error:
            if is_thrown(error):
                raise
            return []
        finally:
            self._socket.settimeout(self._timeout)

    def can_skip_replies(self) -> bool:
        """Whether it receives what its own scripts publish; see `Link`.

        Before Redis 7.0.10, `CLIENT REPLY SKIP` held back messages, too
        (https://github.com/redis/redis/pull/11875).
        """
        told = self._connection.handshake_metadata or {}
        hello = {_text(key): _text(value) for key, value in told.items()}
        is_redis = hello.get("server") == "redis"
        return not (is_redis and re.fullmatch(r"7\.0\.\d", hello.get("version", "")))

    def listens_parked(self) -> bool:
        """Whether it listens, from now on, where it is told of its turn; see `Link`."""
        if not self._parks:
            subscribe = pack(("SUBSCRIBE", f"{self.channel}{PARKED}"))
            (reply,) = self.exchange_all(subscribe, 1)
            self._parks = isinstance(reply, Push)
        return self._parks

    def message_after(self, commands: bytes, token: bytes, timeout: float) -> bytes | None:
        """Send packed commands, and wait for a message in place of replies; see `Link`."""
        start = token + b" "
        left, until = timeout, time.monotonic() + timeout
        try:
            self._socket.sendall(commands)
            while left > 0:
                for push in self._receive_within(left):
                    if not isinstance(push, Push):
                        raise Answered(f"{push!r} answers what was to have no reply")
                    if push[0] == b"message" and push[2].startswith(start):
                        return bytes(push[2])
                left = until - time.monotonic()
        except BaseException as error:
            self.close_for(error)
            raise
        return None

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 when it is closed."""
        return -1 if self.broken else int(self._socket.fileno())

    def fail(self, error: LinkBroken) -> None:  # noqa: ARG002 - nobody else waits on it
        """Close; see `ServerLink`."""
        self.close()

    def close(self) -> None:
        """Close the connection; the server then knows that nobody listens."""
        self.broken = True
        self._connection.disconnect()
        if self._bulk is not None:
            self._bulk.close()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class SubscriptionLink(BlockingLink):
    """A connection that only listens."""

    __slots__ = ("_arrived", "_listens", "_tested")

    def __init__(self, endpoint: Endpoint, channel: str) -> None:
        """Connect and subscribe to `channel`; see `BlockingLink`."""
        self._arrived: list[str] = []
        self._listens = self._tested = False
        super().__init__(endpoint, channel)

    @property
    def address(self) -> Address | None:
        """The host and port that it is connected to; None: a path. See `Subscription`."""
        host = getattr(self._connection, "host", None)
        return None if host is None else (str(host), int(self._connection.port))

    def _keep(self, push: Push) -> None:
        if push[0] == b"message":
            self._arrived.append(push[2].decode(errors="replace"))

    def deliver_messages(
        self, receiver: Callable[[str], None], silence: float | None = None
    ) -> None:
        """Call `receiver` with each message, until the connection breaks; see `Subscription`."""
        self._listens = True  # before the look at `broken`; `close` does it the other way round
        try:
            if self.broken:
                raise ProtocolError("the connection was closed")
            self._socket.settimeout(silence)
            while self._deliver_next(receiver):
                pass
        except BaseException as error:
            self.close_for(error)
            raise
        finally:
            self._listens = False
            if self.broken:
                self.close()

    def _deliver_next(self, receiver: Callable[[str], None]) -> bool:
        """Wait for bytes and deliver complete messages; False if no bytes came for too long."""
        try:
            replies = self._receive()
        except TimeoutError:
            if self._tested:
                raise
            self._tested = True
            self._socket.sendall(_PING)
            return False
        self._tested = False
        for reply in replies:
            if isinstance(reply, Push):
                self._keep(reply)
        while self._arrived:
            receiver(self._arrived.pop(0))
        return True

    def close(self) -> None:
        """End the connection; wakes the thread that listens, which then closes it.

        If its number were free before that, another file could get it, on which the thread would go
        on to wait.
        """
        self.broken = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError) as error:  # it is closed already, or was never open
            if is_interrupt(error):
                raise
        if not self._listens:
            super().close()


class _Place:
    """A thread that wants a connection."""

    __slots__ = ("link", "wake_event")

    def __init__(self) -> None:
        self.wake_event = ThreadWakeEvent()
        self.link: BlockingLink | None = None


class _Opening:
    """A link that is being opened.

    It counts until it is open or has failed; or, interrupted, until nobody has this.
    """

    __slots__ = ("__weakref__",)


class BlockingDriver:
    """A pool of links for all threads of a process.

    Waiters share a few links, so that a holder that releases never waits for a link behind those
    that wait for its lock. See `shared_subscription` and `FEW`.

    Args:
        endpoint: The server.
        prefix: That of the keys.
        most: How many connections the threads may have open, those that only listen included; None:
            any number.
    """

    suspends = False
    skips_replies: bool | None = None
    parks = True
    background: Any = None
    """What goes on with what its callers do not wait for; see `Driver`."""

    def __init__(self, endpoint: Endpoint, prefix: str, most: int | None = None) -> None:
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        self.pause_after = endpoint.pause_after
        self.breakers: tuple[Breaker, ...] = (endpoint.breaker,)
        self._breaker = endpoint.breaker
        self._endpoint = endpoint
        self._prefix = prefix
        self._most = most
        # Each link may open a second connection, for replies of any size.
        self._size = inf if most is None else max(1, (most - _LISTENING) // 2)
        self._most_alone = min(ALONE, self._size // 2)
        self.forget()
        self._breaker.add(self)
        _DRIVERS.add(self)
        reaper.add(self)

    def forget(self) -> None:
        """Drop all links; after a fork they belong to the parent."""
        self._idle: deque[BlockingLink] = deque()
        self._open: WeakSet[BlockingLink] = WeakSet()
        self._alone: set[int] = set()
        self._wanting: deque[_Place] = deque()
        self._grown_at = 0.0
        self._opening: WeakSet[_Opening] = WeakSet()
        self._counting = threading.RLock()
        self._shared_subscription = SharedSubscription(
            partial(grant_channel, self._prefix), partial(SubscriptionLink, self._endpoint)
        )

    def take(self, token: str = "") -> BlockingLink | None:
        """Return an idle link, unless a waiter is to get a shared one; see `Driver`."""
        if token and len(self._alone) >= self._most_alone:
            return None
        try:
            return self._idle.pop()
        except IndexError:
            return None

    async def checkout(self, token: str = "") -> Link:
        """Return an idle link or a new one.

        If many threads wait, a waiter gets a shared one; see `Driver`.
        """
        if (
            token
            and len(self._alone) >= self._most_alone
            and (shares := self._shared_subscription.join(self, token)) is not None
        ):
            return shares
        return self.take() or await self._opened_or_given_back(FEW if token else self._size)

    async def _connected(self, opening: _Opening) -> BlockingLink:
        try:
            if self._breaker.trouble:
                await self._breaker.admit(self.sleep)
            listener = random_text(LISTENER)
            own = grant_channel(self._prefix, listener) if self._endpoint.subscribes else ""
            link = BlockingLink(self._endpoint, own, listener)
            with self._counting:
                self._open.add(link)
            reaper.watch()
            return link
        finally:
            self._opening.discard(opening)  # an error that somebody keeps would keep it, too

    async def checkout_for_asking(self) -> Link:
        """Return an idle link or a new one.

        If many are open, first wait a moment for an idle one.
        """
        return self.take() or await self._opened_or_given_back(FEW)

    async def _opened_or_given_back(self, few: float) -> BlockingLink:
        """Return a new link, if less than `few` are open.

        Else return one that another thread gives back, or a new one later.
        """
        found = self._may_open(few) or await self._given_back(few)
        return await self._connected(found) if isinstance(found, _Opening) else found

    def _may_open(self, few: float) -> _Opening | None:
        """Return what counts one more link, or None.

        None: there are `few` links already, or the pool is at its size.
        """
        with self._counting:
            count = sum(not link.broken for link in self._open) + len(self._opening)
            if count >= min(few, self._size):
                return None
            opening = _Opening()
            self._opening.add(opening)
            return opening

    async def _given_back(self, few: float) -> BlockingLink | _Opening:
        """Return a link that a thread gives back, or what counts one more for the caller to open.

        Links come back within about a round trip. If the server is far away, more are opened, one
        by one. After `reply_timeout` it is not the distance: then each thread opens one, and finds
        out by itself.

        Raises:
            LinkBroken: None came back for as long, and the pool is at its size.
        """
        place, since = _Place(), time.monotonic()
        self._wanting.append(place)
        try:
            # For a link that was given back just before we began to wait.
            self._hand_out()
            while not await place.wake_event.wait(self._pause(since)):
                if (opening := self._may_grow(few, since)) is not None:
                    return opening
            link, place.link = place.link, None
            assert link is not None  # noqa: S101 - whoever wakes us has set it
            return link
        finally:
            with self._counting, suppress(ValueError):
                self._wanting.remove(place)
            if place.link is not None:
                self.checkin(place.link)

    def _hand_out(self) -> None:
        """Give idle links to waiting threads in their order.

        Else the thread that gave one back would take it again.
        """
        with self._counting, suppress(IndexError):  # another thread may take the last one
            while self._wanting:
                link = self._idle.pop()
                place = self._wanting.popleft()
                place.link = link
                place.wake_event.set()

    def _may_grow(self, few: float, since: float) -> _Opening | None:
        """Return what counts one more link, or None.

        None: a thread that waits since then may not open one now.
        """
        now = time.monotonic()
        with self._counting:
            late = now - since >= self.reply_timeout
            if now - self._grown_at < GROWTH and not late and few < self._size:
                return None
            opening = self._may_open(inf)
        if opening is not None:
            self._grown_at = now
        elif late:
            raise LinkBroken(self._all_in_use(since))
        return opening

    def _pause(self, since: float) -> float:
        """Return for how many seconds to wait for a link.

        Raises OutOfTime, which says what kept it.
        """
        try:
            return seconds_left(GROWTH)
        except OutOfTime:
            if self._most is None:
                raise
            raise OutOfTime(self._all_in_use(since)) from None

    def _all_in_use(self, since: float) -> str:
        return (
            f"all connections to {self.description} were in use for "
            f"{time.monotonic() - since:.1f} s; REDIS_LOCKS['MAX_CONNECTIONS'] allows {self._most}"
        )

    def waits_on(self, link: Link) -> bool:
        """Return whether the thread is one of the first few that wait; see `Driver`."""
        if len(self._alone) >= self._most_alone or not isinstance(link, BlockingLink):
            return False
        link.waiting_links = self._alone
        link.waiting_links.add(id(link))
        return True

    async def waiting_link(self, link: Link, token: str) -> Link:
        """Return `link` for one of the first few that wait, else a shared one; see `Driver`."""
        if (
            not isinstance(link, BlockingLink)
            or link.waiting_links is not None
            or self.waits_on(link)
        ):
            return link
        shares = self._shared_subscription.join(self, token)
        if shares is None:  # as many as there are
            if len(self._alone) >= self._size / 2:
                # Else who releases might find none, for as long as these wait.
                msg = (
                    f"{self.description} takes no connection for all that wait, "
                    "and they may keep no more of those there are"
                )
                raise LinkBroken(msg)
            link.waiting_links = self._alone
            link.waiting_links.add(id(link))
        return shares or link

    def unshared(self) -> BlockingDriver:
        """Return this driver: a thread has its link to itself."""
        return self

    def open_subscription(self) -> SubscriptionLink:
        """Return a link that receives which holds of this process another process has ended."""
        return SubscriptionLink(self._endpoint, holder_channel(self._prefix, process_name()))

    def checkin(self, link: Link, token: str = "") -> None:
        """Give a link back; a broken one is dropped."""
        if isinstance(link, BlockingLink):
            if link.waiting_links is not None:
                link.waiting_links.discard(id(link))
                link.waiting_links = None
            if not link.broken:
                link.looks = 0
                if self._breaker.trouble:
                    self._breaker.heard()
                self._idle.append(link)
                if self._wanting:
                    self._hand_out()
        elif isinstance(link, SharedLink):
            link.leave(token)

    def drop_idle(self) -> None:
        """Close the links that are not in use."""
        while (link := self.take()) is not None:
            link.close()

    @property
    def has_open(self) -> bool:
        """Whether any connection is open; see `idle_connections`."""
        with self._counting:
            return bool(self._opening) or any(not link.broken for link in self._open)

    def close_idle(self) -> None:
        """Close the links that nobody has used for long; see `idle_connections`."""
        for link in list(self._idle):  # the one that was used last is the last
            link.looks += 1
            if link.looks > LOOKS:
                with suppress(ValueError, IndexError):  # threads take and give back meanwhile
                    self._idle.remove(link)
                    link.close()

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds_left(seconds))  # noqa: ASYNC251 - blocking is this driver's job

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up; a blocking caller cannot be cancelled."""
        return await coroutine


_DRIVERS: WeakSet[BlockingDriver] = WeakSet()


def _after_fork() -> None:
    for driver in _DRIVERS:
        driver.forget()


os.register_at_fork(after_in_child=_after_fork)
