"""Blocking and async execution of transactions: how each calls the function, sleeps and locks.

`retries` and `recovery` are written once, as coroutines, over an `Execution`.
"""

from __future__ import annotations

import asyncio
import time
from inspect import isawaitable
from typing import Any, Protocol

from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.locks.with_blocks import Block
from redis_locks.optimistic.clients import Server, Source
from redis_locks.optimistic.pipelines import AsyncWatchingPipeline, WatchingPipeline


class Execution(Protocol):
    """How a transaction runs. The methods of `BlockingExecution` never suspend."""

    suspends: bool
    """True if it runs in a task; False if in a thread, which it blocks."""

    def pipeline(self, server: Server, link: Any) -> Any:
        """Return a pipeline whose keys are watched on a link."""

    async def settle(self, answer: Any) -> Any:
        """Return the answer of the pipeline or the user's function, awaited if need be."""

    async def refresh(self, source: Source) -> None:
        """Ask again which server has which keys."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""

    async def hold(self, lock: Lock) -> Hold:
        """Acquire. Raises LockNotAvailable, LockBackendError."""

    async def release(self, hold: Hold) -> None:
        """Release. Raises LockError."""


class BlockingExecution:
    """Runs transactions in the caller's thread."""

    suspends = False

    def pipeline(self, server: Server, link: Any) -> Any:
        """See `Execution`."""
        return WatchingPipeline(server.client, link)

    async def settle(self, answer: Any) -> Any:
        """See `Execution`."""
        if isawaitable(answer):
            getattr(answer, "close", lambda: None)()
            msg = (
                "the function returned an awaitable; use optimistic.arun, or an async def function"
            )
            raise TypeError(msg)
        return answer

    async def refresh(self, source: Source) -> None:
        """See `Execution`."""
        source.refresh()

    async def sleep(self, seconds: float) -> None:
        """See `Execution`."""
        time.sleep(seconds)  # noqa: ASYNC251 - it is meant to block

    async def hold(self, lock: Lock) -> Hold:
        """See `Execution`."""
        return lock.enter(block=Block())  # which is the transaction

    async def release(self, hold: Hold) -> None:
        """See `Execution`."""
        hold.release()


class AsyncExecution:
    """Runs transactions in the running task."""

    suspends = True

    def pipeline(self, server: Server, link: Any) -> Any:
        """See `Execution`."""
        return AsyncWatchingPipeline(server.async_client, link)

    async def settle(self, answer: Any) -> Any:
        """See `Execution`."""
        return await answer if isawaitable(answer) else answer

    async def refresh(self, source: Source) -> None:
        """See `Execution`."""
        await asyncio.to_thread(source.refresh)

    async def sleep(self, seconds: float) -> None:
        """See `Execution`."""
        await asyncio.sleep(seconds)

    async def hold(self, lock: Lock) -> Hold:
        """See `Execution`."""
        # Not as a block: the loss of the lock would cancel the task.
        return await lock.aenter(block=Block())

    async def release(self, hold: Hold) -> None:
        """See `Execution`."""
        await hold.arelease()
