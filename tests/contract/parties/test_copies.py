"""A lock is a description: a copy or pickle of one with open blocks is one that nobody entered.

A hold is one possession, of which there is no copy.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import Lock, LockNotAvailable, Semaphore, redis_lock, run_once

pytestmark = pytest.mark.usefixtures("redis_server")

COPIED = pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda lock: pickle.loads(pickle.dumps(lock))],  # noqa: S301 - our own
    ids=["copy", "deepcopy", "pickle"],
)
MADE = pytest.mark.parametrize(
    "make",
    [
        lambda name: Lock(name, wait=0, reentrant=False),
        lambda name: redis_lock(name, wait=0),
        lambda name: Semaphore(name, 1, wait=0),
        run_once,
    ],
    ids=["Lock", "redis_lock", "Semaphore", "run_once"],
)


@MADE
@COPIED
def test_a_copy_made_inside_an_async_block_is_a_lock_at_rest(
    make: Callable[[str], Any], copied: Callable[[Any], Any], name: str
) -> None:
    async def main() -> Any:
        lock = make(name)
        async with lock as hold:
            found = copied(lock)
            with pytest.raises(LockNotAvailable):
                await asyncio.create_task(enter(found))
            with pytest.raises(RuntimeError):
                await found.__aexit__(None, None, None)
            hold.check()
        return found

    found = asyncio.run(main())
    if make is not run_once:
        asyncio.run(enter(found))


async def enter(lock: Any) -> None:
    async with lock:
        pass


@MADE
@COPIED
def test_a_hold_is_neither_copied_nor_pickled(
    make: Callable[[str], Any], copied: Callable[[Any], Any], name: str
) -> None:
    with make(name) as hold:
        with pytest.raises(TypeError, match=f"{name}.*detach"):
            copied(hold)
        hold.check()
