"""How long a step of a call may take.

To connect, to ask and to read the reply share what is left of the call.

`protocol` limits steps by `in_time`. The links of threads ask how many seconds are left; an event
loop cancels the step.
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
"""Bytes of a reply that must come within the time for a reply, for a large one to get that time
again.
"""


_HARDLY: Final = 0.01
"""Seconds by which the time for a reply may be shorter, as some have passed since it was set."""


class _Limits(threading.local):
    """Until when this thread may take for a step, on the monotonic clock."""

    step: Any = None
    """The coroutine of the step; None: there is no limit."""
    until = inf
    at_last = inf
    """The same for a step that reads a large reply."""


_limits: Final = _Limits()


def is_limited() -> bool:
    """Whether this thread runs a step with a limit.

    An interrupt may have kept the end of an earlier one from lifting that.
    """
    step = _limits.step
    return step is not None and bool(step.cr_running)


def seconds_left(longest: float) -> float:
    """Return for how many seconds the thread may wait now, at most `longest`. Raises OutOfTime."""
    if not is_limited():
        return longest
    left = _limits.until - monotonic()
    if left <= 0:
        raise OutOfTime("the time of this call is over")
    return min(longest, left)


def go_on(seconds: float) -> None:
    """Give the step so many more seconds from now, as a large reply is on its way."""
    if is_limited():
        _limits.until = min(max(_limits.until, monotonic() + seconds), _limits.at_last)


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
        LinkBroken: It has not ended in time. A thread's connection is closed then. That of an event
            loop stays open, for others.
    """
    if driver.suspends:
        return await _in_loop(driver, step, until, at_last)
    around = _limits.step, _limits.until, _limits.at_last
    if is_limited():
        until, at_last = min(until, around[1]), min(at_last, around[2])
    try:
        _limits.step, _limits.until, _limits.at_last = step, until, at_last
        return await step
    finally:
        _limits.step, _limits.until, _limits.at_last = around


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
        raise OutOfTime("the time of this call is over")
    try:
        async with asyncio.timeout(left) as timer:
            return await step
    except TimeoutError as error:
        if timer.expired():
            raise Silent(f"{driver.description} did not answer in time") from error
        raise
