"""The interfaces `Driver` and `Link`, the errors of links, and how blocking code runs the core.

A driver is a pool of links to one server or cluster. `protocol` and the features above it use both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from redis_locks.scripts import Script

T = TypeVar("T")

Call = tuple[Sequence[bytes], Sequence[bytes | str]]
"""The KEYS and the ARGV of one script call; see `argv` for numbers."""


def argv(*words: bytes | str | int) -> list[bytes | str]:
    """Return arguments of a script in which numbers are text, as `resp.pack` takes them."""
    return [str(word) if isinstance(word, int) else word for word in words]


class LinkBroken(Exception):
    """The connection failed; the command may have run or not.

    Repeat the call, with the same token, on a new link.
    """


class Answered(LinkBroken):
    """The server replied after it was told not to: replies can no longer be matched to commands."""


class Unreachable(LinkBroken):
    """No connection could be opened, so nothing was sent."""


class CutShort(Unreachable):
    """A server, or a proxy before it, accepted the connection and closed it in the handshake."""


class Silent(Unreachable):
    """The server neither took nor refused the connection in time, or took it and said nothing."""


class OutOfTime(Silent):
    """Nothing was sent, as no time was left for it."""


CUT_SHORT: Final = 5.0
"""Seconds to keep trying while connections are closed during the handshake. After that, the server
counts as gone.
"""


PARKED: Final = "+"
"""Suffix of a listener's name. It tells scripts to push the waiter's turn to a list as well."""


class Link(Protocol):
    """One connection that runs scripts and receives grants."""

    is_direct: bool
    """Whether it is one connection to one server, over which packed calls go as they are; see
    `exchange`.
    """

    def exchange(self, packet: bytes) -> Any:
        """Send a packed command.

        Return its reply, unconverted; or None, and then `await answer()` returns it.

        Only of a link that `is_direct`. So one function serves blocking code, which has the reply
        at once, and async code. Raises LinkBroken.
        """

    def exchange_all(self, packet: bytes, number: int) -> list[Any] | None:
        """Send `number` packed commands. Return their replies, as `exchange` does its one."""

    def answer(self) -> Awaitable[Any]:
        """Return what to await for the reply or replies, right after `exchange` returned None."""

    def refusal(self, reply: object) -> Exception | None:
        """Return what to raise for the reply to a packed call, if that is an error.

        None: it is none, or the server does not know the script, and is to get its text by `call`.
        After any other error the script may have run in part. Only of a link that `is_direct`.
        """

    @property
    def channel(self) -> str:
        """Where it receives grants."""

    @property
    def listener(self) -> str:
        """The end of the channel's name, which scripts get in place of the whole name."""

    @property
    def needs_subscription(self) -> bool:
        """Whether to call `subscribe` before each script that may put a waiter into a queue."""

    async def subscribe(self, keys: Sequence[bytes]) -> None:
        """Subscribe to the grants of the locks `keys`, and set `channel`.

        Raises LinkBroken, LockBackendError.
        """

    async def call(self, script: Script, call: Call, reads: Sequence[bytes] = ()) -> list[Any]:
        """Run a script, and packed commands after it, in one round trip.

        Return its reply and then theirs.

        Raises LinkBroken, LockBackendError. What a command answers with an error is an
        `ErrorReply`.
        """

    @property
    def open_bulk(self) -> Link | None:
        """The link that `bulk` returns, if it is open already."""

    async def bulk(self) -> Link:
        """Return the link for replies of any size.

        Its connection is not subscribed; it is opened when first needed.

        The server disconnects a subscriber with more than 32 MB of output
        (``client-output-buffer-limit pubsub``). Grants for waiters that asked on the bulk link
        arrive on this link. Raises as `Driver.checkout`.
        """

    tails: dict[object, str]
    """The ends of packets, of a link that `is_direct`; see `plans`."""

    waiters: int
    """How many waiters wait on this connection; once it has broken, how many did."""

    large: bool
    """Whether the last reply was larger than 1 MB."""

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        """Run packed commands on the server that has `keys`, in one round trip.

        An error is an `ErrorReply`.
        """

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip.

        The reply of a call that failed is its exception.
        """

    def packed(self, script: Script, call: Call) -> bytes:
        """Return the packed command that runs a script the server knows, to send among others."""

    def disconnect(self) -> None:
        """Close the connection, so that the server grants nothing to a waiter left in a queue."""

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait up to `timeout` seconds for a message for `token`. Raises LinkBroken."""

    quick_keys: frozenset[bytes] | None
    """The locks whose last wait on this link was brief. They are asked for without a reply next
    time.
    """

    def can_skip_replies(self) -> bool:
        """Whether this link receives messages of its own scripts when their replies are skipped."""

    def listens_parked(self) -> bool:
        """Subscribe to the channel with the suffix `PARKED`.

        Return False if the server refuses. Raises LinkBroken.
        """

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send `number` packed commands and return their replies, unconverted.

        Raises LinkBroken.
        """

    def message_for(self, token: bytes) -> bytes | None:
        """Return the last message that has come for `token`, or None; drop all messages."""

    def message_after(self, commands: bytes, token: bytes, timeout: float) -> bytes | None:
        """Send packed commands that have no reply, and wait for a message for `token`.

        Blocks for at most `timeout` seconds: only of a link that `can_skip_replies`. Raises
        LinkBroken, and Answered.
        """


class Driver(Protocol):
    """A pool of links. It also sleeps, and shields clean-up from cancellation."""

    description: str
    suspends: bool
    """True if its callers are tasks of an event loop; False if they are threads, which it blocks.
    """

    reply_timeout: float
    """Seconds until an unanswered command counts as failed."""

    skips_replies: bool | None
    """Whether the server obeys CLIENT REPLY SKIP; None: not known yet."""

    parks: bool
    """Whether waiters may wait for their turn with BLPOP. False once the server has refused that.
    """

    background: Any
    """A `Background`, which goes on with what callers do not wait for any more; None: the lease
    ends it.
    """

    @property
    def breakers(self) -> Sequence[Any]:
        """The breakers of its server, or of the nodes of its cluster; see `breaker`."""

    def waits_on(self, link: Link) -> bool:
        """Whether a waiter that queued over `link` waits there; if not, see `waiting_link`."""

    def unshared(self) -> Driver:
        """Return a driver to the same server, for commands that block there.

        Its links have one user at a time. Raises ValueError if the server is a cluster.
        """

    def take(self, token: str = "") -> Link | None:
        """Return an idle link that `is_direct`, as `checkout`; None: only `checkout` has one."""

    async def checkout(self, token: str = "") -> Link:
        """Return a link. With a waiter's `token`, the link also keeps messages for that token.

        If many waiters have links already, wait a moment for one that is given back, to keep
        connections few. Raises Unreachable; LinkBroken, when a new connection broke before it was
        of use; and LockBackendError.
        """

    async def waiting_link(self, link: Link, token: str) -> Link:
        """Return the link on which to wait in a queue that was joined over `link`.

        It is another link if so many wait that they must share one. Then join the queue again over
        that link.
        """

    def checkin(self, link: Link, token: str = "") -> None:
        """Give a link back, with the token it was checked out for; a broken one is dropped."""

    def drop_idle(self) -> None:
        """Close links that are not in use. After a failure they are probably dead, too."""

    def pause_after(self, failures: int) -> float | None:
        """Return the client's pause in seconds after so many attempts to connect; None: give up."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up to its end, even if the caller is cancelled meanwhile."""


class WaitsInPlace:
    """Defaults of a driver whose waiters wait on the link over which they joined the queue."""

    skips_replies: bool | None = False
    parks = False
    background: Any = None
    """What goes on with what its callers do not wait for; see `Driver`."""

    def waits_on(self, link: Link) -> bool:  # noqa: ARG002 - as `Driver`
        """Return True; see `Driver`."""
        return True

    async def waiting_link(self, link: Link, token: str) -> Link:  # noqa: ARG002 - as `Driver`
        """Return `link`; see `Driver`."""
        return link

    def drop_idle(self) -> None:
        """Nothing to do: a broken link is replaced at the next checkout."""


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose awaits never suspend and return its value.

    No event loop is involved, so it works with and without a running one.

    Raises:
        RuntimeError: It suspended, which only a coroutine over an async driver does.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    # Closing may raise by itself and would hide the message below.
    with suppress(RuntimeError):
        coroutine.close()
    raise RuntimeError("a blocking driver must not suspend")
