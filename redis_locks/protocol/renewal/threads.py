"""Renewal by one background thread for all threads of a process."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Protocol

from redis_locks.drivers.base import Driver, LinkBroken, run_blocking
from redis_locks.drivers.ears import Ear, HearingLink
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import lock_events
from redis_locks.protocol.leases import YOUNG, Lease, tell_lost
from redis_locks.protocol.renewal.extending import renew
from redis_locks.protocol.renewal.registry import Registry
from redis_locks.protocol.renewal.renewer import ERROR_PAUSE

logger = logging.getLogger("redis_locks")


class EarDriver(Driver, Protocol):
    """A driver with connections that one thread uses at a time."""

    def open_ear(self) -> HearingLink:
        """Return a connection that hears which holds of this process somebody else has ended."""


class ThreadRenewer:
    """Renews the holds of all threads of this process from one daemon thread."""

    discard: Callable[[Lease], object]
    """Stops renewing a lease."""

    def __init__(self, driver: EarDriver) -> None:
        self._driver = driver
        self.reset()
        _THREAD_RENEWERS.add(self)

    def reset(self) -> None:
        """Start empty; after a fork the holds and the thread are the parent's."""
        self._registry = Registry(self._tell_lost)
        self.discard = self._registry.discard
        self._leases = self._registry.leases
        self._ear = Ear(self._driver.open_ear, self._registry.revoke, self._was_deaf)
        self._added = False
        self._changed = threading.Condition()
        self._running = False
        # When the thread looks next at the latest; infinite when there is none.
        self._wakes_at = inf

    def add(self, lease: Lease) -> None:
        """Renew `lease`, or watch it end, until it is discarded, lost or garbage."""
        self._leases[lease.token] = weakref.ref(lease)  # as `Registry.add`
        self._added = True
        # Most leases come after the thread looks anyway: no mutex, no wake-up for them.
        due, young_until = lease.due, lease.since + YOUNG
        by = due if due < young_until else young_until  # noqa: FURB136 - `min` takes as long as all else here
        if by < self._wakes_at and self._ear.is_open:
            by = due
        if by < self._wakes_at:
            with self._changed:
                if not self._running:
                    self._running = True
                    threading.Thread(
                        target=self._run, name="redis_locks-renewal", daemon=True
                    ).start()
                elif by < self._wakes_at:
                    self._wakes_at = by
                    self._changed.notify()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen from now on, and until everything that was added in this block has ended.

        Raises:
            LockBackendError: The server cannot be reached.
        """
        with self._changed:
            self._ear.pins += 1
        try:
            with self._changed:
                try:
                    self._ear.open()
                except LinkBroken as error:
                    raise LockBackendError(str(error)) from error
            yield
        finally:
            with self._changed:
                self._ear.pins -= 1

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._wakes_at <= monotonic():
                    # A lease added from here on waits for the mutex; one added before is seen.
                    self._wakes_at = inf
                due, pause = self._registry.take_due()
                listen, pause = self._ear_due(pause)
                if not (due or listen):
                    # Woken early, for a lease that may be gone already, it keeps that time:
                    # the next lease would only wake it again.
                    self._wakes_at = min(self._wakes_at, monotonic() + pause)
                    if not self._changed.wait(self._wakes_at - monotonic()):
                        self._wakes_at = inf
                        if pause >= self._registry.IDLE and self._is_idle():
                            self._running = False
                            self._ear.close()
                            return
                    continue
            if listen:
                self._ear.try_to_open()
                self._registry.renew_all()  # somebody may have ended one before
            try:
                run_blocking(renew(self._driver, due))
            except Exception:
                logger.exception("Renewal failed; trying again")
                time.sleep(ERROR_PAUSE)
            del due  # else a finished hold would live until the next turn

    def _is_idle(self) -> bool:
        """Whether there is nothing to renew, and was not since it was asked before."""
        added, self._added = self._added, False
        return not (added or len(self._registry))

    def _ear_due(self, pause: float) -> tuple[bool, float]:
        """Return whether to listen from now on for holds that somebody else ends, and when to look again.

        Holds are mostly short, and nobody ends those: they are worth no connection.
        """
        now, oldest = monotonic(), self._registry.oldest
        if self._ear.is_open:
            return False, pause
        if oldest + YOUNG <= now:
            left = self._ear.retry_at - now
            return left <= 0, min(pause, max(left, 0.0))
        # As long as locks are acquired it looks again, so that no acquire has to wake it.
        added, self._added = self._added, False
        return False, min(pause, max(oldest + YOUNG - now, 0.0), YOUNG if added else pause)

    def _was_deaf(self) -> None:
        """Renew all: somebody may have ended a hold meanwhile."""
        with self._changed:
            self._registry.renew_all()
            self._wakes_at = 0.0
            self._changed.notify()

    def _tell_lost(self, lease: Lease) -> None:
        # Whoever listens may take long, and other holds need their renewal meanwhile.
        if not lock_events.listens("lost"):
            return
        try:
            threading.Thread(
                target=lambda: run_blocking(tell_lost(self._driver, lease)),
                name="redis_locks-lost",
                daemon=True,
            ).start()
        except RuntimeError:  # no thread to be had; the end of its block may tell
            logger.exception("Cannot tell that lock %r is lost", lease.name)


_THREAD_RENEWERS: weakref.WeakSet[ThreadRenewer] = weakref.WeakSet()


def _after_fork() -> None:
    for renewer in _THREAD_RENEWERS:
        renewer.reset()


os.register_at_fork(after_in_child=_after_fork)
