"""One circuit breaker for each server.

While it is open, nobody waits for a server that does not answer.

| state | begins when | a call that needs a connection |
|---|---|---|
| closed | the server answers anybody | opens one |
| checking | all connections failed for `reply_timeout` | waits for the verdict, 0.25 s at most |
| open | one more connection, opened to check, is not answered either | fails at once, see `TRIAL` |

Links say here when a connection fails, or is answered after that. A thread, which lives only while
the breaker is not closed, connects now and then, and its first answer closes the breaker.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from time import monotonic
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary, ref

from redis_locks.drivers.base import LinkBroken, Unreachable
from redis_locks.values.text import printable

logger = logging.getLogger("redis_locks")

T = TypeVar("T")

FIRST_PAUSE: Final = 0.5
"""Seconds between the first two probes."""

LONGEST_PAUSE: Final = 5.0
"""Seconds between two probes at most; each pause is twice the one before. While blocks run without
their locks, it stays at the first.
"""

CHECK: Final = 0.25
"""Seconds in which the connection that decides whether to open must be answered."""

TRIAL: Final = 0.05
"""Where connections are refused, one call in so many seconds tries by itself: it costs nobody
anything.

So a server that was restarted is found by the next call. Where a connection costs time, only the
thread tries. Then a call has it try at once, and waits so long for its verdict, once in
`FIRST_PAUSE` seconds.
"""

_FORGOTTEN: Final = 60.0
"""Seconds after which a failure says nothing about the next one."""

_QUIET: Final = 10.0
"""Seconds after an outage in which the log tells of another one only if the breaker opens."""

_LOOK = 0.01


class Away(Unreachable):
    """The breaker is open."""


class BreakerState(Enum):
    """What a breaker lets through; see the table above."""

    CLOSED = "closed"
    CHECKING = "checking"
    OPEN = "open"


class Handshake(Enum):
    """What a new connection has come to."""

    ANSWERED = "answered"
    REFUSED = "refused, or closed by the other side"
    UNHEARD = "without an answer, for as long as one may take"


class Target(Protocol):
    """The server, as the breaker needs it."""

    @property
    def reply_timeout(self) -> float:
        """Seconds until an unanswered command counts as failed."""

    @property
    def may_have_successor(self) -> bool:
        """Whether it is worth waiting: somebody will soon name another server in its place."""

    def found(self, within: float | None = None) -> Handshake:
        """Return what a new connection comes to. Blocks `within` s, or for its own timeouts."""


class GuardedPool(Protocol):
    """Has idle links, of which none is to be used while the breaker is open."""

    def drop_idle(self) -> None:
        """Close them. Called by any thread."""


class _Thread(threading.local):
    insisting: Any = None
    """The coroutine that connects whatever breakers say; None: none does."""


_thread = _Thread()


async def insisting(step: Coroutine[Any, Any, T]) -> T:
    """Return what `step` returns; this thread connects in it whatever breakers say.

    For what must be done as soon as that works, such as extending a lease.
    """
    before = _thread.insisting
    try:
        _thread.insisting = step
        return await step
    finally:
        _thread.insisting = before


def _insists() -> bool:
    """Whether this thread runs such a coroutine.

    An interrupt may have kept an earlier one from being forgotten.
    """
    step = _thread.insisting
    return step is not None and bool(step.cr_running)


class Breaker:
    """That of one server, or of one node of a cluster; all drivers of a process share it.

    See `breaker_of`.
    """

    def __init__(self, description: str) -> None:
        self.description = description
        self.trouble = False
        """Whether a connection has failed since the last answer. Only then it wants to hear of
        answers.
        """
        self.state = BreakerState.CLOSED
        self._pools: WeakSet[GuardedPool] = WeakSet()
        self._told = False
        """Whether the log has been told that the server is lost."""
        self._quiet_until = 0.0
        self._reset()
        self.renew()

    def renew(self) -> None:
        """Have new guards.

        After a fork the thread is the parent's; the next call that is turned away starts another.
        """
        # Re-entrant: a signal's handler may release a lock while its thread has the guard.
        self._guard = threading.RLock()
        self._wake = threading.Event()
        self._prober: threading.Thread | None = None
        if self.state is BreakerState.CHECKING:
            self.state = BreakerState.CLOSED

    def add(self, pool: GuardedPool) -> None:
        """Have a pool close its idle links when the breaker opens."""
        with self._guard:
            self._pools.add(pool)

    def _reset(self) -> None:
        self.trouble = self._urgent = False
        self.state = BreakerState.CLOSED
        self.asks = 0
        """How many calls have failed for want of an answer."""
        self._failures = 0
        self._since = self._failed_at = self._tried_at = 0.0
        self._is_refused = False
        self._why = ""
        self._target: Target | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls that need a connection fail at once."""
        return self.state is BreakerState.OPEN

    @property
    def away_for(self) -> float:
        """Seconds since the first failure after the last answer; 0.0 if there was none."""
        return monotonic() - self._since if self.trouble else 0.0

    def failed(self, target: Target, began: float, why: str, *, refused: bool = False) -> None:
        """Note that a connection, or question on one, was `refused` or unanswered since `began`."""
        now = monotonic()
        with self._guard:
            if not self._failures or now - self._failed_at > _FORGOTTEN:
                self._failures, self._since = 0, began
            self._failures += 1
            self._is_refused = refused
            self._failed_at, self._why, self._target = now, why, target
            self.trouble = True
            lasts = now - self._since >= target.reply_timeout
            if self.state is BreakerState.CLOSED and self._failures > 1 and lasts and self._start():
                self.state = BreakerState.CHECKING

    def heard(self) -> None:
        """Note that the server has answered."""
        with self._guard:
            if not self.trouble:
                return
            was_open, told, asks, lasted = self.is_open, self._told, self.asks, self.away_for
            self._reset()
            self._told = False
            if told:
                self._quiet_until = monotonic() + _QUIET
            self._wake.set()
        if told:
            logger.warning(
                "%s answers again after %.1f s; %d calls failed meanwhile",
                *(self.description, lasted, asks),
                extra={"lock_event": "back"},
            )
        if was_open:
            _tell_changed(self)

    def note_failed_call(self) -> None:
        """Count a call that failed because the server did not answer, if it does not."""
        with self._guard:
            if not self.trouble:
                return
            self.asks += 1
            if self._told or monotonic() < self._quiet_until:
                return
            self._told, why = True, self._why
        self._log_lost(why)

    def hurry(self) -> None:
        """Probe often until this outage is over, as blocks run without their locks meanwhile."""
        with self._guard:
            if self.trouble and not self._urgent:
                self._urgent = True
                self._wake.set()

    async def admit(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Return if a call may connect, perhaps after a check of 0.25 s.

        Raises Away or, where a successor is likely, LinkBroken.
        """
        while self.state is BreakerState.CHECKING and not _insists():
            await sleep(_LOOK)
        if self.state is not BreakerState.OPEN or _insists():
            return
        with self._guard:
            target, now = self._target, monotonic()
            # Without a thread that probes, calls have to find out by themselves.
            if not self.is_open or target is None or not self._start():
                return
            tries = now - self._tried_at >= (TRIAL if self._is_refused else FIRST_PAUSE)
            if tries:
                self._tried_at = now
                if self._is_refused:
                    return
                self._wake.set()
        until = now + TRIAL if tries else now
        while monotonic() < until and self.is_open:
            await sleep(_LOOK)
        if self.is_open:
            raise self.error(target)

    def error(self, target: Target) -> LinkBroken:
        """Return the error of a call while the breaker is open."""
        said = (
            f"{self.description} cannot be reached: {self._why}; {self._failures} connections "
            f"have failed in {self.away_for:.1f} s. Calls fail at once until it answers. How long "
            f"one waits for a reply ({target.reply_timeout:g} s) is REDIS_LOCKS['REPLY_TIMEOUT'], "
            "or socket_timeout in its URL"
        )
        return LinkBroken(said) if target.may_have_successor else Away(said)

    def _start(self) -> bool:
        """Have a thread that probes, and return whether there is one. The guard is held."""
        if self._prober is not None and self._prober.is_alive():
            return True
        self._wake.clear()
        thread = threading.Thread(
            target=_probe, args=(ref(self), self._wake), name="redis_locks-probe", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads can start, or the process ends
            return False
        self._prober = thread
        return True

    def check(self) -> bool:
        """Find out whether the server answers.

        If not, be open. Return whether to go on probing; blocks.
        """
        with self._guard:  # who starts the thread has it until there is something to find out
            target, state = self._target, self.state
        if target is not None and state is not BreakerState.CLOSED:
            finding = target.found(CHECK if state is BreakerState.CHECKING else None)
            if finding is Handshake.ANSWERED:
                self.heard()
            else:
                self._is_refused = finding is Handshake.REFUSED
                self._open()
        with self._guard:
            if self.state is not BreakerState.CLOSED:
                return True
            # Under the guard: who fails from now on finds no thread, and starts one.
            if self._prober is threading.current_thread():
                self._prober = None
            return False

    def _open(self) -> None:
        with self._guard:
            if self.state is not BreakerState.CHECKING:
                return
            self.state, told, self._told = BreakerState.OPEN, self._told, True
            why, pools = self._why, list(self._pools)
        for pool in pools:
            pool.drop_idle()
        if not told:
            self._log_lost(why)
        _tell_changed(self)

    def _log_lost(self, why: str) -> None:
        logger.warning(
            "%s does not answer: %s. The next line about it comes when it answers again",
            *(self.description, printable(why)),
            extra={"lock_event": "away"},
        )

    def pause_after(self, pause: float) -> float:
        """Return the seconds until the next probe, if they were `pause` until the last one."""
        return FIRST_PAUSE if self._urgent else min(pause * 2, LONGEST_PAUSE)


def _probe(reference: ref[Breaker], wake: threading.Event) -> None:
    """Probe until the server answers, or until nobody uses the breaker any more."""
    pause = 0.0
    while (breaker := reference()) is not None and _goes_on(breaker):
        pause = breaker.pause_after(pause) if pause else FIRST_PAUSE
        del breaker
        if wake.wait(pause):
            wake.clear()


def _goes_on(breaker: Breaker) -> bool:
    """Probe, and return whether to go on.

    What the user's code raises, such as a handler of the log, ends no probing.
    """
    try:
        return breaker.check()
    except Exception:
        logger.exception("A probe of %s failed; trying again", breaker.description)
        return True


_breakers: WeakValueDictionary[str, Breaker] = WeakValueDictionary()
_making = threading.RLock()

changed: list[Callable[[str, bool], object]] = []
"""Called with the server, as text for people, and whether its breaker is open, when that changes.
They must not block.
"""


def _tell_changed(breaker: Breaker) -> None:
    for tell in tuple(changed):
        try:
            tell(breaker.description, breaker.is_open)
        except Exception:
            logger.exception("A change of the breaker of %s could not be told", breaker.description)


def breaker_of(description: str) -> Breaker:
    """Return the breaker of the server so described; the same one as long as anybody uses it."""
    with _making:
        found = _breakers.get(description)
        if found is None:
            found = _breakers[description] = Breaker(description)
        return found


def note_failed_call(driver: Any, error: BaseException) -> None:
    """Count a call by a driver that failed as the server did not answer, if that is why."""
    if isinstance(error, LinkBroken):
        for breaker in driver.breakers:
            breaker.note_failed_call()


def _after_fork() -> None:
    global _making  # noqa: PLW0603 - another thread of the parent may have had it
    _making = threading.RLock()
    for breaker in list(_breakers.values()):
        breaker.renew()


os.register_at_fork(after_in_child=_after_fork)
