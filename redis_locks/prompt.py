"""Let go of a hold in the shortest way, if nothing about it is out of the ordinary."""

from __future__ import annotations

from time import monotonic
from typing import Any, ClassVar

from redis_locks import express, identity, observing
from redis_locks.conversions import Convertible
from redis_locks.drivers.base import run_blocking
from redis_locks.leases import Lease, tell


class Prompt(Convertible):
    """A hold that `express` can release, mostly."""

    __slots__ = ()

    _simple: ClassVar = True
    """Whether it has one lease, and its release is nothing but that."""

    def _release_promptly(self) -> bool:
        """Release as `_release` does, if nothing is out of the ordinary; whether it is done."""
        prompt, tenure = self._backend.prompt, self._tenure
        lease = self._leave_promptly()
        if prompt is None or lease is None or not express.release(prompt, lease, tenure.end):
            return False
        held = self._told_released(lease)
        if held is not None:
            run_blocking(tell(prompt, "released", lease, held=held))
        return True

    async def _arelease_promptly(self, driver: Any) -> bool:
        """Release as `_release_promptly` does. Cancelled, it may have been released or not."""
        lease = self._leave_promptly()
        if lease is None:
            return False
        self._tenure.end()
        if not await express.arelease(driver, lease):
            return False
        held = self._told_released(lease)
        if held is not None:
            await tell(driver, "released", lease, held=held)
        return True

    def _leave_promptly(self) -> Lease | None:
        """Return the lease to be released now, as the last that holds it; None if anything is out of the ordinary."""
        tenure = self._tenure
        lease = tenure.lease
        if (
            not self._simple
            or self.kept
            or lease.ended
            or lease.lost
            or lease.line is not None
            or self._backend.prompt is None
            or self._pid != identity.process.pid
            or monotonic() >= lease.deadline
            or not tenure.leave_alone(self)
            or lease.ended  # by another thread meanwhile
        ):
            return None
        lease.ended = True
        return lease

    def _told_released(self, lease: Lease) -> float | None:
        """Note, and let the observer count, that it was released; return the seconds held if that is to be told."""
        self._released = True
        observer = observing.observer
        if observer is None:
            return None
        try:
            lease.untold.pop()  # as `first_told`
        except IndexError:
            return None
        held = monotonic() - lease.since
        server = self._backend.description
        return held if observer.count("released", lease.request.names, server, held) else None
