"""Another party in the same process: its holds exclude the test's own thread, as anybody's do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connections

from redis_locks import Lock

T = TypeVar("T")


def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call in a new thread, and return or raise what that does."""

    def run() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()  # a thread has connections of its own

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def is_free(name: str, **options: Any) -> bool:
    """Whether another thread can have the lock now."""

    def take() -> bool:
        hold = Lock(name, **options).acquire(wait=0)
        if hold is not None:
            hold.release()
        return hold is not None

    return in_thread(take)


async def ais_free(name: str) -> bool:
    return await asyncio.to_thread(is_free, name)
