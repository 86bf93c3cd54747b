"""What holds ask to be renewed, whoever does it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol

from redis_locks.protocol.leases import Lease

ERROR_PAUSE: Final = 0.1
"""Seconds to pause after an error nobody foresaw: the other holds still need their renewal."""


class Renewer(Protocol):
    """What holds ask to be renewed."""

    def add(self, lease: Lease) -> None:
        """Renew `lease`, or watch it end, until it is discarded, lost or garbage."""

    @property
    def discard(self) -> Callable[[Lease], object]:
        """Stops renewing a lease."""

    def listening(self) -> AbstractContextManager[None]:
        """Listen until everything that was added in this block has ended."""
