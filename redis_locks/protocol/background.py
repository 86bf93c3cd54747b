"""A thread that goes on with what callers do not wait for any more.

That is a release, and what an acquire has to take back.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final
from weakref import WeakSet

from redis_locks.drivers.base import Driver, Link, LinkBroken, run_blocking
from redis_locks.drivers.breaker import FIRST_PAUSE, insisting
from redis_locks.exceptions import LockError
from redis_locks.protocol.retry import longest_pause

logger = logging.getLogger("redis_locks")

MOST: Final = 10_000
"""How many ends a server owes us at most. The oldest ones end with their leases, as all do that
nobody can ask for.
"""

IDLE: Final = 5.0
"""Seconds after which the thread ends that has nothing to do."""

_Work = Callable[[Link], Coroutine[Any, Any, object]]


class Background:
    """What is asked of one server again and again, one after the other.

    Each is asked until the server answers or the lease has ended.

    Args:
        driver: A blocking one.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.reset()
        _ALL.add(self)

    def reset(self) -> None:
        """Start empty: after a fork, all of it is the parent's."""
        self._pending: deque[tuple[float, _Work]] = deque(maxlen=MOST)
        # Re-entrant: the handler of a signal may come in between.
        self._changed = threading.Condition(threading.RLock())
        self._running = False

    def add(self, work: _Work, until: float) -> bool:
        """Do it soon, as often as connections break, until then on the monotonic clock.

        It must be safe to repeat. Returns False if no thread can do it: the lease ends it.
        """
        if sys.is_finalizing():
            return False  # a thread that starts now never runs, and Python 3.11 waits until it does
        with self._changed:
            self._pending.append((until, work))
            self._changed.notify()
            if not self._running:
                try:
                    threading.Thread(
                        target=self._run, name="redis_locks-background", daemon=True
                    ).start()
                except RuntimeError:  # no thread to be had: the lease ends it
                    self._pending.clear()
                else:
                    self._running = True
            return self._running

    def _run(self) -> None:
        failures = 0
        while (found := self._next(self._pause_after(failures))) is not None:
            until, work = found
            try:
                # All breakers are open: so no other node waits while this one is asked.
                step = self._do(work)
                run_blocking(insisting(step) if self._is_away else step)
            except LinkBroken:
                failures += 1
                self._driver.drop_idle()
                with self._changed:
                    self._pending.append((until, work))  # last: another node may answer
            except LockError as error:
                logger.debug("What was to be ended in the background was refused: %s", error)
            except Exception:
                logger.exception("What was to be ended in the background ends with its lease")
            else:
                failures = 0

    @property
    def _is_away(self) -> bool:
        """Whether calls fail at once, whatever they ask of the server."""
        breakers = self._driver.breakers
        return bool(breakers) and all(breaker.is_open for breaker in breakers)

    def _pause_after(self, failures: int) -> float:
        return FIRST_PAUSE if failures and self._is_away else longest_pause(failures)

    async def _do(self, work: _Work) -> None:
        link = await self._driver.checkout()
        try:
            await work(link)
        finally:
            self._driver.checkin(link)

    def _next(self, pause: float) -> tuple[float, _Work] | None:
        """Return what is to be done next, after a pause.

        None: there was nothing for a while, and the thread ends.
        """
        with self._changed:
            if pause:
                self._changed.wait(pause)
            while True:
                while self._pending:
                    until, work = self._pending.popleft()
                    if monotonic() < until:
                        return until, work
                if not self._changed.wait(IDLE) and not self._pending:
                    self._running = False
                    return None


_ALL: WeakSet[Background] = WeakSet()


def _after_fork() -> None:
    for background in _ALL:
        background.reset()


os.register_at_fork(after_in_child=_after_fork)
