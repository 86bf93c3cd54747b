"""Ask again when a connection breaks: for as long as the answer matters and a server is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from redis_locks.drivers.base import CUT_SHORT, CutShort, Driver, Link, LinkBroken, Unreachable
from redis_locks.drivers.resp import ErrorReply
from redis_locks.exceptions import LockBackendError

T = TypeVar("T")

TRIES: Final = 5
"""How often in a row to try to connect to a server that takes no connection."""

LONGEST: Final = 60.0
"""Seconds after which the retries for a lease end, however long it is."""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25


async def persist(
    driver: Driver,
    action: Callable[[Link], Coroutine[Any, Any, T]],
    until: float,
    *,
    unreachable_until: float = inf,
    lock: str | None = None,
) -> tuple[T, bool]:
    """Run `action` on a link, again on a new one if that breaks; return its reply and whether it ran again.

    So it must be safe to repeat. It is tried twice at least, for a link may have died long ago,
    while it was idle.

    Args:
        driver: Where links come from.
        action: What to do on one.
        until: When to give up, on ``time.monotonic()``.
        unreachable_until: When to give up a server that takes no connection; at the latest
            after `TRIES` in a row.
        lock: The name of the lock, if `until` is when its lease ends: it is tried for `LONGEST` seconds at most.

    Raises:
        LockBackendError: Nobody has answered in time, or the server refused.
    """
    patience: _Patience | None = None
    began = monotonic()
    while True:
        try:
            link = await driver.checkout()
            try:
                return await action(link), patience is not None
            finally:
                driver.checkin(link)
        except LinkBroken as error:
            driver.drop_idle()
            if patience is None:
                last = until if lock is None else min(until, began + LONGEST)
                patience = _Patience(began, last, unreachable_until)
            if patience.ends_with(error):
                ends = f"; lock {lock!r} ends with its lease" if lock else ""
                msg = f"{driver.description} does not answer ({error}){ends}"
                raise LockBackendError(msg) from error
        if pause := longest_pause(patience.failures):
            await driver.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311 - jitter


async def ask_once(driver: Driver, packet: bytes, token: str) -> bytes | None:
    """Return the reply to a packed call for a token, asked on an idle link; None: ask by `persist`, as nothing is known."""
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
    except LinkBroken:
        driver.drop_idle()
    finally:
        driver.checkin(link)
    return None


def longest_pause(failures: int) -> float:
    """Return for how many seconds to pause at most after so many failures in a row, for half of that at least."""
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
        if isinstance(error, CutShort):
            return now - self._answered >= CUT_SHORT
        if isinstance(error, Unreachable):
            self._unreachable += 1
            return self._unreachable >= TRIES or now >= self._unreachable_until
        self._unreachable, self._answered = 0, now
        return False
