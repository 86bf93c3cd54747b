"""Holders and waiters for tests of what others see of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any
from unittest import mock

from redis_locks import Hold, Lock, LockError, LockLost, identity, inspection


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
def on_host(host: str) -> Iterator[None]:
    """Let whoever asks for a lock meanwhile do so on another host."""

    def who(pid: int, unit: str, label: str | None, _ear: str | None) -> str:
        return json.dumps({"host": host, "pid": pid, "unit": unit, "label": label})

    with mock.patch.object(identity, "_who", who):
        yield


@contextmanager
def waited_for(
    name: str, label: str = "waiter", *, holding: str | None = None, also: tuple[str, ...] = ()
) -> Iterator[list[LockError]]:
    """Have a thread stand in line for a lock that is held, perhaps while it holds another.

    It may want others `also`, all or none. Yields the list in which the error is noted that the wait ends with, if it does.
    """
    told: list[LockError] = []

    def wait() -> None:
        with ExitStack() as stack:
            if holding:
                stack.enter_context(held(holding, label=label))
            try:
                hold = Lock(name, *also, wait=20, label=label).acquire()
            except LockError as error:
                told.append(error)
                return
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
        yield told
    finally:
        inspection.release(name)
        thread.join()
