"""What a link to one server makes of scripts, whichever way its bytes go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis_locks.drivers.base import Call, CallingLink, LinkBroken
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import Demoted, reply_error, unknown_script
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.wire import pack_call
from redis_locks.scripts import Script


class ServerLink(CallingLink):
    """A link to one server, over the round trips of a subclass."""

    __slots__ = ()

    _endpoint: Endpoint

    def _break(self, error: LinkBroken) -> None:
        """Be of no more use, because of `error`."""
        raise NotImplementedError

    def forsake(self) -> None:
        """Break, so that whoever waits on it asks again on another one; see `Link`."""
        self._break(
            LinkBroken("a place in a queue could not be given up, or replies were out of step")
        )

    async def call_and_read(
        self, script: Script, call: Call, reads: Sequence[bytes]
    ) -> tuple[Any, list[Any]]:
        """Run a script and commands after it in one round trip; see `Link`."""
        packet = pack_call(script, call)
        if reads:
            packet = b"".join((packet, *reads))
        reply, *rest = await self.round_trip(packet, 1 + len(reads))
        if isinstance(reply, ErrorReply):
            reply, *rest = await self._again(reply, script, call, reads)
        return reply, rest

    async def call(self, script: Script, call: Call) -> Any:
        """Run a script; see `Link`."""
        replies = await self.round_trip(pack_call(script, call), 1)
        if isinstance(replies[0], ErrorReply):
            replies = await self._again(replies[0], script, call)
        return replies[0]

    async def _again(
        self, error: ErrorReply, script: Script, call: Call, reads: Sequence[bytes] = ()
    ) -> list[Any]:
        """Ask again with the text of the script, if the server does not know it; raise what else it refused."""
        if not unknown_script(error):
            raise self._refusal(error)
        packet = b"".join((pack_call(script, call, whole=True), *reads))
        replies = await self.round_trip(packet, 1 + len(reads))
        if isinstance(replies[0], ErrorReply):
            raise self._refusal(replies[0])
        return replies

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:  # noqa: ARG002 - as `Link`
        """Run commands in one round trip; see `Link`."""
        return await self.round_trip(b"".join(reads), len(reads)) if reads else []

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times in one round trip; see `Link`."""
        for whole in (False, True):
            packed = [pack_call(script, call, whole=whole) for call in calls]
            replies = await self.round_trip(b"".join(packed), len(packed)) if packed else []
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
