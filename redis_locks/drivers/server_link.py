"""Script calls over a link to one server.

Links pack them, send a script's text when needed, and raise refusals.

`blocking` and `asynchronous` build on `ServerLink`, `shared_subscription` and `cluster_link` on
`CallingLink`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from redis_locks.drivers.base import Call, Link, LinkBroken
from redis_locks.drivers.refusals import Demoted, reply_error
from redis_locks.drivers.resp import ErrorReply, pack
from redis_locks.scripts import Script

if TYPE_CHECKING:
    from redis_locks.drivers.endpoint import Endpoint
    from redis_locks.drivers.resp import Reader


_FEW_KEYS = 4
"""Calls with more keys are packed as a whole: what is remembered would be large."""


def pack_call(script: Script, call: Call, *, whole: bool = False) -> bytes:
    """Return EVALSHA of the script in RESP, or EVAL with its text if `whole`.

    Most words of a call are those of the call before, so they are packed once. That saves 8 % of
    the instructions that a client runs in a free cycle.
    """
    keys, argv = call
    if whole or len(keys) > _FEW_KEYS:
        runs = (b"EVAL", script.text) if whole else (b"EVALSHA", script.sha)
        return pack((*runs, b"%d" % len(keys), *keys, *argv))
    token, *others = argv
    if isinstance(token, str):
        token = token.encode()
    words = (_repeated_words if script.repeats else pack_words)(tuple(others)) if others else b""
    start = _start(script, tuple(keys), len(argv))
    return b"%b$%d\r\n%b\r\n%b" % (start, len(token), token, words)


def pack_words(words: tuple[bytes | str, ...]) -> bytes:
    """Return words in RESP, without the header that says how many they are."""
    packed = pack(words)
    return packed[packed.index(b"\n") + 1 :]


_repeated_words = lru_cache(maxsize=1024)(pack_words)


@lru_cache(maxsize=1024)
def _start(script: Script, keys: tuple[bytes, ...], arguments: int) -> bytes:
    """Return EVALSHA of the script with its keys in RESP; so many arguments follow."""
    header = b"*%d\r\n" % (3 + len(keys) + arguments)
    return header + pack_words((b"EVALSHA", script.sha, b"%d" % len(keys), *keys))


class CallingLink:
    """Defaults of a link: one that neither skips replies nor needs a subscription for each lock."""

    __slots__ = ()

    is_direct = False
    tails: dict[object, str]
    needs_subscription = False
    quick_keys: frozenset[bytes] | None = None
    large = False
    waiters = 1
    # Only a link that `is_direct` has these; see `Link`.
    exchange: Any
    exchange_all: Any
    answer: Any
    refusal: Any
    round_trip: Callable[[bytes, int], Coroutine[Any, Any, list[Any]]]
    message_for: Any
    message_after: Any

    @property
    def open_bulk(self) -> Link | None:
        """The link that `bulk` returns, if it is open already; see `Link`."""
        return None

    async def subscribe(self, keys: Sequence[bytes]) -> None:
        """Nothing to do: one channel serves all locks."""

    def packed(self, script: Script, call: Call) -> bytes:
        """Return what runs a script; see `Link`."""
        return pack_call(script, call)

    def can_skip_replies(self) -> bool:
        """Return False: several tasks or threads share what comes; see `Link`."""
        return False

    def listens_parked(self) -> bool:
        """Return False; see `Link`."""
        return False


class ServerLink(CallingLink):
    """A link to one server, over the round trips of a subclass."""

    __slots__ = ()

    is_direct = True
    endpoint: Endpoint
    reader: Reader

    @property
    def is_waiting(self) -> bool:
        """Whether the server has yet to answer."""
        return False

    def decode(self, *, wanted: bool) -> None:
        """Let replies be text from now on, if the client decodes and it is `wanted`; else bytes."""
        if self.endpoint.shape is not None:
            self.endpoint.shape.decode(self.reader, wanted=wanted)

    def fail(self, error: LinkBroken) -> None:
        """Close, because of `error`; commands and waits on this link raise it."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close, so that all who wait here ask again on another link; see `Link`."""
        self.fail(
            LinkBroken("a place in a queue could not be given up, or replies were out of step")
        )

    async def call(self, script: Script, call: Call, reads: Sequence[bytes] = ()) -> list[Any]:
        """Run a script and commands after it in one round trip; see `Link`."""
        packet = pack_call(script, call)
        if reads:
            packet = b"".join((packet, *reads))
        replies = await self.round_trip(packet, 1 + len(reads))
        if type(replies[0]) is ErrorReply:
            replies = await self._again(replies[0], script, call, reads)
        return replies

    async def _again(
        self, error: ErrorReply, script: Script, call: Call, reads: Sequence[bytes]
    ) -> list[Any]:
        """Send the script's text if the server does not know it; raise any other refusal."""
        if (refusal := self.refusal(error)) is not None:
            raise refusal
        packet = b"".join((pack_call(script, call, whole=True), *reads))
        replies = await self.round_trip(packet, 1 + len(reads))
        if (refusal := self.refusal(replies[0])) is not None:
            raise refusal
        return replies

    async def read(
        self,
        reads: Sequence[bytes],
        keys: Sequence[bytes],  # noqa: ARG002 - as `Link`
    ) -> list[Any]:
        """Run commands in one round trip; see `Link`."""
        return await self.round_trip(b"".join(reads), len(reads)) if reads else []

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; see `Link`."""
        for whole in (False, True):
            packed = [pack_call(script, call, whole=whole) for call in calls]
            replies = await self.round_trip(b"".join(packed), len(packed)) if packed else []
            if not any(map(_unknown_script, replies)):
                break
        return [self.refusal(reply) or reply for reply in replies]

    def refusal(self, reply: object) -> Exception | None:
        """Return what to raise for an error reply, but that a script is unknown; see `Link`."""
        if not isinstance(reply, ErrorReply) or _unknown_script(reply):
            return None
        error = reply_error(reply, self.endpoint)
        if isinstance(error, Demoted):
            self.fail(error)
        return error


def _unknown_script(reply: object) -> bool:
    """Return whether the server does not know the script (any more)."""
    return isinstance(reply, ErrorReply) and reply.text.startswith("NOSCRIPT")
