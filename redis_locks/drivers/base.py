"""What the core asks of a driver, and how blocking code runs the core."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from redis_locks.scripts import Script

T = TypeVar("T")

Arg = bytes | str | int
Call = tuple[Sequence[bytes], Sequence[Arg]]
"""The KEYS and the ARGV of one script call."""


class LinkBroken(Exception):
    """The connection failed: the command may have run or not. Repeat it by token on a new link."""


class Answered(LinkBroken):
    """The server has answered what it was to send no reply to: nobody knows which replies are to come."""


class Unreachable(LinkBroken):
    """No connection could be opened: nothing was sent."""


class CutShort(Unreachable):
    """It broke while it was being opened. Somebody took it: a server, or what stands before one."""


CUT_SHORT: Final = 5.0
"""Seconds for which a server whose connections are cut short may be there: after that, it is not."""


PARKED: Final = "+"
"""At the end of the listener that scripts know: the waiter waits for its turn in a list as well."""


class Link(Protocol):
    """One connection that runs scripts and hears grants."""

    @property
    def channel(self) -> str:
        """Where it hears grants."""

    @property
    def listener(self) -> str:
        """What scripts are told of it: the end of the channel's name."""

    @property
    def tunes_in(self) -> bool:
        """Whether it has to `tune_in` before each question."""

    async def tune_in(self, keys: Sequence[bytes]) -> None:
        """See to it that grants of the locks `keys` are heard, on `channel`. Raises LinkBroken, LockBackendError."""

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script. Raises LinkBroken, LockBackendError."""

    async def call_and_read(
        self, script: Script, call: Call, reads: Sequence[bytes]
    ) -> tuple[Any, list[Any]]:
        """Run a script and packed commands after it, in one round trip; replies as they come."""

    async def bulk(self) -> Link:
        """Return the link for replies of any size, on a connection that is not subscribed; may connect.

        A server cuts a subscriber off that has more than 32 MB to come (``client-output-buffer-limit pubsub``).
        Grants of what is asked there are heard here. Raises as `Driver.checkout`.
        """

    large: bool
    """Whether the last reply was larger than 1 MB."""

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        """Run packed commands where `keys` are, in one round trip; replies as they come, errors as ErrorReply."""

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; a failed one's reply is its exception."""

    def packed(self, script: Script, call: Call) -> bytes:
        """Return what runs a script, if the server knows it, among packed commands."""

    def listen(self, token: str) -> None:
        """Keep messages for `token` from now on. Some links do so for one token at a time: for the last."""

    def unlisten(self, token: str) -> None:
        """Forget `token`."""

    def forsake(self) -> None:
        """Listen no more, for a place in a queue stays behind: it must not be granted for nobody."""

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait up to `timeout` seconds for a message for `token`. Raises LinkBroken."""

    quick_keys: frozenset[bytes] | None
    """Keys of the locks that were waited for briefly on this link, last: they are asked for without a reply."""

    def can_skip_replies(self) -> bool:
        """Whether this link hears what its own scripts tell it, also if their replies are skipped."""

    async def listens_parked(self) -> bool:
        """Whether it listens, from now on, as `PARKED` says; False if it may not. Raises LinkBroken."""

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send `number` packed commands at once and return their replies as they come. Raises LinkBroken."""

    async def message_after(self, commands: bytes, token: bytes, timeout: float) -> bytes | None:
        """Send packed commands that have no reply; wait for a message for `token`, at most `timeout` seconds.

        Raises LinkBroken, and Answered.
        """


class CallingLink:
    """What all links share."""

    __slots__ = ()

    tunes_in = False
    quick_keys: frozenset[bytes] | None = None
    large = False

    async def tune_in(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: one channel serves all locks."""

    async def call_and_read(
        self, script: Script, call: Call, reads: Sequence[bytes]
    ) -> tuple[Any, list[Any]]:
        """Run a script and packed commands after it, in one round trip; see `Link`."""
        raise NotImplementedError

    def packed(self, script: Script, call: Call) -> bytes:
        """Return what runs a script; see `Link`."""
        # Not above: it imports this module.
        from redis_locks.drivers.wire import pack_call

        return pack_call(script, call)

    def can_skip_replies(self) -> bool:
        """Return False: several tasks or threads share what comes; see `Link`."""
        return False

    async def listens_parked(self) -> bool:
        """Return False; see `Link`."""
        return False

    async def round_trip(self, commands: bytes, number: int) -> list[Any]:
        """Send packed commands; see `Link`."""
        raise NotImplementedError

    async def message_after(self, commands: bytes, token: bytes, timeout: float) -> bytes | None:
        """Send packed commands that have no reply; see `Link`."""
        raise NotImplementedError

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script; see `Link`."""
        reply, _ = await self.call_and_read(script, call, ())
        return reply


class Driver(Protocol):
    """Hands out links, sleeps, and guards clean-up against cancellation."""

    description: str
    suspends: bool
    """Whether its callers are tasks of an event loop; else they are threads, which it blocks."""

    reply_timeout: float
    """Seconds until an unanswered command counts as failed."""

    skips_replies: bool | None
    """Whether the server sends no reply if it is told so; None: not known yet."""

    parks: bool
    """Whether it may wait for its turn in a list, as far as it is known."""

    def sits(self, link: Link) -> bool:
        """Whether to wait in a queue that was joined over `link` on that very link; see `seat`."""

    def unshared(self) -> Driver:
        """Return a driver to the same server whose links have one user at a time.

        It is for commands that the server takes its time to answer. Raises ValueError if the
        server is a cluster.
        """

    async def checkout(self) -> Link:
        """Return a link.

        Raises Unreachable; LinkBroken, when a new connection broke before it was of use; and
        LockBackendError.
        """

    async def checkout_to_wait(self) -> Link:
        """Return a link for somebody who may have to wait; as `checkout`.

        Where many wait already, it first waits a moment until a link in use is given back, so that
        they need few.
        """

    async def seat(self, link: Link) -> Link:
        """Return the link on which to wait in a queue that was joined over `link`.

        It is another one when so many wait already that they have to share one: join again over that.
        """

    def checkin(self, link: Link) -> None:
        """Give a link back; a broken one is dropped."""

    def drop_idle(self) -> None:
        """Forget links that are not in use: after a failure they are probably dead too."""

    def pause_after(self, failures: int) -> float | None:
        """Return the seconds to pause after so many attempts to connect, as the client says; None: give up."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up to its end, whatever cancels the caller meanwhile."""


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
    msg = "a blocking driver must not suspend"
    raise RuntimeError(msg)
