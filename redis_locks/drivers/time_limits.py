"""How long a step of a call may take: to connect, to ask and to read the reply share what is left of the call.

`protocol` limits steps by `in_time`. The links of threads look at `limits`; an event loop cancels the step.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from redis_locks.drivers.base import Driver, OutOfTime, Silent

T = TypeVar("T")

MUCH: Final = 1 << 16
"""Bytes of a reply that must come within the time for a reply, for a large one to get that time again."""


_HARDLY: Final = 0.01
"""Seconds by which the time for a reply may be shorter, as some have passed since it was set."""


class _Limits(threading.local):
    """Until when this thread may take for the step that it runs, on the monotonic clock."""

    until = inf
    at_last = inf
    """The same for a step that reads a large reply."""


limits: Final = _Limits()


def seconds_left(longest: float) -> float:
    """Return for how many seconds the thread may wait now, at most `longest`. Raises OutOfTime."""
    until = limits.until
    if until == inf:
        return longest
    left = until - monotonic()
    if left <= 0:
        msg = "the time of this call is over"
        raise OutOfTime(msg)
    return min(longest, left)


def go_on(seconds: float) -> None:
    """Give the step so many more seconds from now, as a large reply is on its way."""
    if limits.until != inf:
        limits.until = min(max(limits.until, monotonic() + seconds), limits.at_last)


async def in_time(
    driver: Driver, step: Coroutine[Any, Any, T], until: float, at_last: float = inf
) -> T:
    """Return what `step` returns, which talks to the server and does nothing else.

    Args:
        driver: On what it talks.
        step: What to do.
        until: When to give it up, on the monotonic clock.
        at_last: When to give it up if a large reply is on its way.

    Raises:
        LinkBroken: It has not ended in time. A thread's connection is closed then. That of an event loop stays open,
            for others.
    """
    if driver.suspends:
        return await _in_loop(driver, step, until, at_last)
    before = limits.until, limits.at_last
    try:
        limits.until, limits.at_last = min(until, before[0]), min(at_last, before[1])
        return await step
    finally:
        limits.until, limits.at_last = before


async def _in_loop(driver: Driver, step: Coroutine[Any, Any, T], until: float, at_last: float) -> T:
    left = until - monotonic()
    if left > driver.reply_timeout - _HARDLY and getattr(driver, "is_open", False):
        until = at_last  # a link that is open gives up a silent server by itself
    until = min(until, at_last)
    if until == inf:
        return await step
    left = until - monotonic()
    if left <= 0:
        step.close()
        msg = "the time of this call is over"
        raise OutOfTime(msg)
    try:
        async with asyncio.timeout(left) as timer:
            return await step
    except TimeoutError as error:
        if timer.expired():
            msg = f"{driver.description} did not answer in time"
            raise Silent(msg) from error
        raise
