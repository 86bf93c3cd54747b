"""Holders and waiters for tests of what others see of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any

from redis_locks import Hold, Lock, LockLost, inspection


@contextmanager
def held(name: str, **options: Any) -> Iterator[Hold]:
    """Hold a lock which somebody else may release meanwhile."""
    hold = Lock(name, **{"lease": 60, "renew": False} | options).acquire(wait=0)
    assert hold
    try:
        yield hold
    finally:
        with suppress(LockLost):
            hold.release()


@contextmanager
def waited_for(name: str, label: str = "waiter", *, holding: str | None = None) -> Iterator[None]:
    """Have a thread stand in line for a lock that is held, perhaps while it holds another."""

    def wait() -> None:
        with ExitStack() as stack:
            if holding:
                stack.enter_context(held(holding, label=label))
            hold = Lock(name, wait=20, label=label).acquire()
            assert hold
            with suppress(LockLost):
                hold.release()

    def waiting() -> int:
        info = inspection.lock(name)
        return info.waiting if info else 0

    before = waiting()
    thread = Thread(target=wait, name=f"thread of {label}")
    thread.start()
    while waiting() <= before:
        assert thread.is_alive()
    try:
        yield
    finally:
        inspection.release(name)
        thread.join()
