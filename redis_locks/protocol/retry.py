"""Ask again when a connection breaks.

That goes on for as long as the answer matters, a server is there, and the caller waits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from redis_locks.drivers.base import (
    CUT_SHORT,
    CutShort,
    Driver,
    Link,
    LinkBroken,
    OutOfTime,
    Unreachable,
)
from redis_locks.drivers.breaker import Away, note_failed_call
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.time_limits import in_time
from redis_locks.exceptions import LockBackendError

T = TypeVar("T")

TRIES: Final = 5
"""How often in a row to try to connect to a server that takes no connection."""

LONGEST: Final = 60.0
"""Seconds after which the retries for a lease end, however long it is."""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25

OVERTIME: Final = 0.25
"""Seconds after a bound of the caller's by which what it bounds has ended, whatever the server
does.
"""


@dataclass(slots=True, eq=False)
class Bound:
    """What a block around the caller allows: `lock_timeout` or `lock_deadline`."""

    block: object
    """Whose it is."""
    entered_by: str
    """The name of the session that entered it."""
    longest: float = inf
    """Seconds for each wait."""
    until: float = inf
    """When all waits end, on the monotonic clock."""
    in_vain: bool = False
    """Whether a question after `until` was not answered: the next ones have no time."""
    ended: bool = False
    """Whether another session left the block: the context in which it was entered has it still."""

    def ends(self, now: float) -> float:
        """Return when a call that begins now has to end."""
        latest = self.until if self.in_vain else max(self.until, now)
        return min(now + self.longest, latest) + OVERTIME


# Immutable, so that every thread and task sees its own blocks only.
bounds: ContextVar[tuple[Bound, ...]] = ContextVar("redis_locks.bounds", default=())
"""One entry for each open block around the caller."""


def open_bounds() -> list[Bound]:
    """Return the bounds around the caller that have not ended elsewhere."""
    return [bound for bound in bounds.get() if not bound.ended]


def at_last() -> float:
    """Return when a call that begins now has to end, whatever the server does.

    The blocks around the caller say when.
    """
    now = monotonic()
    return min((bound.ends(now) for bound in open_bounds()), default=inf)


def note_silence() -> None:
    """Note that a question was not answered.

    Where a deadline has passed, no more time is spent on others.
    """
    now = monotonic()
    for bound in open_bounds():
        bound.in_vain |= now >= bound.until


async def persist(
    driver: Driver,
    action: Callable[[Link], Coroutine[Any, Any, T]],
    until: float,
    *,
    unreachable_until: float = inf,
    lock: str | None = None,
    within: float | None = None,
    ends: float = inf,
) -> tuple[T, bool]:
    """Run `action` on a link, again on a new one if that breaks.

    Return its reply, and whether it ran again. The action must be safe to repeat. It is tried twice
    at least if there is time, for a link may have died long ago, while it was idle.

    Args:
        driver: Where links come from.
        action: What to do on one.
        until: When to give up, on ``time.monotonic()``.
        unreachable_until: When to give up a server that takes no connection; at the latest
            after `TRIES` in a row.
        lock: The name of the lock, if `until` is when its lease ends: it is tried for `LONGEST`
            seconds at most.
        within: Seconds after which the caller does not wait any more, unless a large reply is on
            its way. None: as long as a reply may take. inf: it waits as long as the answer matters.
        ends: When the caller does not wait any more, whatever happens; see `at_last`.

    Raises:
        LockBackendError: Nobody has answered in time, or the server refused.
    """
    patience: _Patience | None = None
    began = monotonic()
    last = until if lock is None else min(until, began + LONGEST)
    soft = began + (driver.reply_timeout if within is None else within)
    soft = min(soft, ends, max(last, began) + driver.reply_timeout)
    while True:
        try:
            return await in_time(driver, _on_link(driver, action), soft, ends), patience is not None
        except LinkBroken as error:
            if not isinstance(error, OutOfTime):
                driver.drop_idle()
            if patience is None:
                patience = _Patience(began, last, unreachable_until)
            if patience.ends_with(error) or monotonic() >= soft:
                note_failed_call(driver, error)
                raise _given_up(driver, error, monotonic() - began, lock) from error
        if pause := longest_pause(patience.failures):
            pause *= random.uniform(0.5, 1)  # noqa: S311 - jitter
            await driver.sleep(min(pause, max(soft - monotonic(), 0.0)))


def _given_up(
    driver: Driver, error: LinkBroken, tried: float, lock: str | None
) -> LockBackendError:
    """Return the error of a server that was tried for so many seconds."""
    msg = str(error).rstrip(".")
    if driver.description not in msg:
        msg = f"{driver.description} does not answer: {msg}"
    if not isinstance(error, Away):  # of an open breaker nobody was asked
        msg += f" (tried for {tried:.1f} s)"
    if lock:
        msg += f"; lock {lock!r} ends with its lease"
    return LockBackendError(msg)


async def _on_link(driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
    link = await driver.checkout()
    try:
        return await action(link)
    finally:
        driver.checkin(link)


async def ask_once(driver: Driver, packet: bytes, token: str) -> bytes | None:
    """Return the reply to a packed call for a token, asked on an idle link.

    None: ask by `persist`, as nothing is known.

    Raises LockBackendError for a refusal, after which the call may have run in part.
    """
    link = driver.take()
    if link is None:
        return None
    try:
        reply = link.exchange(packet)
        if reply is None:
            reply = await link.answer()
        if type(reply) is bytes and reply.startswith(f"{token} ".encode()):
            return reply
        if type(reply) is not ErrorReply:
            link.disconnect()  # out of step
        elif (refusal := link.refusal(reply)) is not None:
            raise refusal
    except LinkBroken:
        driver.drop_idle()
    finally:
        driver.checkin(link)
    return None


def longest_pause(failures: int) -> float:
    """Return for how many seconds to pause at most after so many failures in a row.

    The pause is half of that at least.
    """
    if failures <= 1:
        return 0.0  # the link may have died long ago, while it was idle
    return min(_FIRST_PAUSE * 2.0 ** min(failures, 10), _LONGEST_PAUSE)


class _Patience:
    """Whether to try on after a failure."""

    def __init__(self, began: float, until: float, unreachable_until: float) -> None:
        self.failures = 0
        self._until = until
        self._unreachable_until = unreachable_until
        self._unreachable = 0
        self._answered = began

    def ends_with(self, error: LinkBroken) -> bool:
        now = monotonic()
        self.failures += 1
        if self.failures > 1 and now >= self._until:
            return True
        if isinstance(error, Away):
            return self._unreachable_until < inf  # what matters as long as a lease goes on
        if isinstance(error, CutShort):
            return now - self._answered >= CUT_SHORT
        if isinstance(error, Unreachable):
            self._unreachable += 1
            return self._unreachable >= TRIES or now >= self._unreachable_until
        self._unreachable, self._answered = 0, now
        return False
