"""Tasks wait for messages, each for its own time, and one timer wakes them."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from time import monotonic
from typing import Any

from redis_locks.drivers.task_messages import TaskMessages

LONG = 5.0


def looped(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop."""
    return wraps(test)(lambda: asyncio.run(test()))


def waiting(messages: TaskMessages, token: str, seconds: float) -> asyncio.Task[bytes]:
    messages.open(token)
    return asyncio.create_task(messages.look(token, seconds))


async def until_asleep() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def opened() -> TaskMessages:
    return TaskMessages(asyncio.get_running_loop())


@looped
async def test_a_message_is_kept_for_who_is_going_to_wait_and_heard_once() -> None:
    messages = await opened()
    messages.open("a")
    messages.put(b"a 1")
    messages.put(b"a 2")
    assert b"a 2" == await messages.look("a", LONG)
    assert b"" == await messages.look("a", 0.01)
    messages.put(b"b 1")  # nobody's


@looped
async def test_all_may_be_woken_for_something_else_once() -> None:
    messages = await opened()
    asleep = waiting(messages, "a", LONG)
    messages.open("b")
    await until_asleep()
    messages.wake_all()
    assert b"" == await asleep
    assert b"" == await messages.look("b", LONG), "it is told when it is going to wait"
    began = monotonic()
    assert b"" == await messages.look("b", 0.05)
    assert monotonic() - began >= 0.04


@looped
async def test_each_is_woken_when_its_own_time_is_over_whatever_the_order() -> None:
    messages = await opened()
    began, woken = monotonic(), {}

    async def look(token: str, seconds: float) -> None:
        messages.open(token)
        assert b"" == await messages.look(token, seconds)
        woken[token] = monotonic() - began

    limits = {"c": 0.6, "a": 0.1, "d": 0.7, "b": 0.2, "b too": 0.2}
    await asyncio.gather(*(look(*limit) for limit in limits.items()))
    assert sorted(limits, key=limits.__getitem__) == sorted(woken, key=woken.__getitem__)
    assert all(limits[token] - 0.01 <= after for token, after in woken.items())
    assert woken["a"] < limits["c"]


@looped
async def test_who_waits_again_is_not_woken_by_the_end_of_its_last_wait() -> None:
    messages = await opened()
    again = waiting(messages, "a", 0.05)
    await until_asleep()
    messages.put(b"a 1")
    await again
    began = monotonic()
    assert b"" == await messages.look("a", 0.2)
    assert monotonic() - began >= 0.19


@looped
async def test_one_that_is_cancelled_leaves_nothing_behind_when_its_time_is_over() -> None:
    messages = await opened()
    tasks = [waiting(messages, str(number), 0.05) for number in range(10)]
    await until_asleep()
    for number, task in enumerate(tasks):
        task.cancel()
        messages.close(str(number))
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.1)
    assert not messages._limits
    assert messages._timer is None


class Hasty(asyncio.SelectorEventLoop):
    """Its timers are half a millisecond early, as uvloop's may be, which counts whole ones."""

    calls = 0

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.calls += 1
        return super().call_at(when - 0.0005, callback, *args, context=context)


def test_a_timer_that_is_early_is_not_set_again_and_again() -> None:
    async def wait() -> None:
        messages = await opened()
        for number in range(20):
            assert b"" == await waiting(messages, str(number), 0.005)

    loop = Hasty(selectors.SelectSelector())  # which sleeps for no longer than it is told
    try:
        loop.run_until_complete(wait())
    finally:
        loop.close()
    assert 20 == loop.calls
