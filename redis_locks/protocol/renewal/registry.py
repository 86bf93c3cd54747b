"""The leases that a renewer looks after, and which of them are due."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import ClassVar

from redis_locks.protocol.leases import Lease

logger = logging.getLogger("redis_locks")


class Registry:
    """The leases to renew, and which of them are due. `on_lost` is called when one is found lost."""

    IDLE: ClassVar = 5.0
    """Seconds the renewal thread or task stays when there is nothing to renew."""

    def __init__(self, on_lost: Callable[[Lease], object]) -> None:
        self.leases: dict[str, weakref.ref[Lease]] = {}
        """By token."""
        self._on_lost = on_lost
        self.oldest = inf
        """Since when the oldest of them is held, as of the last look."""

    def add(self, lease: Lease) -> None:
        """Look after `lease`, without keeping it alive."""
        self.leases[lease.token] = weakref.ref(lease)

    def discard(self, lease: Lease) -> bool:
        """Forget a lease, under both its tokens; return whether it was there."""
        own, token = lease.own, lease.token
        there = own is not None and self._discard(own.token, lease)
        # As `_discard`, without a call of it: nearly every release comes here.
        reference = self.leases.get(token)
        if reference is None or reference() is not lease:
            return there
        found = self.leases.pop(token, None)
        return found is reference or self._put_back(token, found) or there

    def _discard(self, token: str, lease: Lease) -> bool:
        reference = self.leases.get(token)
        # Else the token is that of another lease by now, to which the hold has passed on.
        if reference is None or reference() is not lease:
            return False
        found = self.leases.pop(token, None)
        return found is reference or self._put_back(token, found)

    def take_due(self) -> tuple[list[Lease], float]:
        """Return the leases to renew now, and in how many seconds to look again."""
        now = monotonic()
        due: list[Lease] = []
        next_due = now + self.IDLE
        oldest = inf
        for token, reference in self.leases.copy().items():
            lease = reference()
            if lease is None or lease.ended or token not in {lease.token, lease.asker}:
                found = self.leases.pop(token, None)
                if found is not reference:
                    self._put_back(token, found)
            elif lease.is_over():
                self._lose(lease)
            else:
                oldest = min(oldest, lease.since)
                next_due = min(next_due, max(lease.due, now))
                if lease.due <= now and token == lease.token and self._renews(lease, reference):
                    due.append(lease)
        self.oldest = oldest
        return due, next_due - now

    def _put_back(self, token: str, found: weakref.ref[Lease] | None) -> bool:
        if found is not None:
            self.leases[token] = found  # it has just passed on, with its token
        return False

    def _renews(self, lease: Lease, reference: weakref.ref[Lease]) -> bool:
        """Whether to renew a lease now. One that passed to us gets our token by that."""
        own = lease.own
        if own is None:
            return True
        self.leases[own.token] = reference
        return lease.restates()

    def revoke(self, token: str) -> None:
        """Note that an operator ended the hold of `token`."""
        reference = self.leases.get(token)
        lease = reference() if reference is not None else None
        if lease is not None and not lease.ended:
            lease.revoke()
            self._lose(lease)

    def renew_all(self) -> None:
        """Let all be due, those that are not renewed to be looked at."""
        for reference in self.leases.copy().values():
            lease = reference()
            if lease is not None:
                lease.due = 0.0

    def _lose(self, lease: Lease) -> None:
        lease.leave_line()
        if self.discard(lease):
            on_lost = lease.on_lost  # once: its block may end meanwhile
            if on_lost is not None:
                try:
                    on_lost()
                except Exception:  # whoever renews or hears does it for all other holds, too
                    logger.exception("The block of lock %r was not told of its loss", lease.name)
            self._on_lost(lease)

    def __len__(self) -> int:
        return len(self.leases)
