"""Links over connections of a class of the user's own, which may send and parse in its own way."""

from __future__ import annotations

import sys
from typing import Any, Final

from redis import exceptions as redis_errors

from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import raise_interrupt_behind

_WIRE: Final = (
    "pack_command", "pack_commands", "read_response", "send_command", "send_packed_command",
)  # fmt: skip
"""The methods by which redis-py's connections send and receive."""


def is_plain(connection_class: type[Any]) -> bool:
    """Return whether connections of a class send and receive as redis-py's do, so that only the socket is of use."""
    methods = [getattr(connection_class, method, None) for method in _WIRE]
    return all(getattr(method, "__module__", "").startswith("redis.") for method in methods)


class ClientLink(BlockingLink):
    """A connection that is asked to send and receive by its own methods."""

    __slots__ = ("_decodes",)

    def __init__(self, endpoint: Endpoint, channel: str, listener: str = "") -> None:
        """Connect; see `BlockingLink`."""
        self._decodes = True
        super().__init__(endpoint, channel, listener)

    def exchange_all(self, packet: bytes, number: int) -> list[Any]:
        """Send packed commands, and return their replies or redis-py's errors; see `Link`."""
        outer = sys.exception()
        try:
            self.connection.send_packed_command([packet])
            return [self._reply() for _ in range(number)]
        except (redis_errors.ConnectionError, redis_errors.TimeoutError) as error:
            self.close()
            raise_interrupt_behind(error, outer)
            raise LinkBroken(str(error)) from error
        except BaseException as error:
            self.close_for(error)
            raise

    def _reply(self) -> Any:
        try:
            return self.connection.read_response(disable_decoding=not self._decodes)
        except redis_errors.ResponseError as error:
            return error

    def decode(self, *, wanted: bool) -> None:
        """Let replies be text from now on; see `ServerLink`."""
        self._decodes = wanted


class ClientDriver(BlockingDriver):
    """A pool of such links."""

    _link_class = ClientLink
