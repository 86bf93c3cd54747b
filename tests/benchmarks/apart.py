"""Clients that share no memory: each process started by itself, where those of one pool are forked from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from redis_locks.benchmark.measuring import client_pool
from redis_locks.benchmark.pool import WorkerPool


class ApartPool:
    """As many pools of one client each, used as one."""

    def __init__(self, size: int) -> None:
        self._stack = ExitStack()
        self._size = size
        self._pools: list[WorkerPool] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._pools = [stack.enter_context(client_pool(1)) for _ in range(self._size)]
            self._threads = stack.enter_context(ThreadPoolExecutor(self._size))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def prepare(self, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        """As `WorkerPool.prepare`."""
        return [
            pid for pool, job in zip(self._pools, jobs, strict=True) for pid in pool.prepare([job])
        ]

    def run(self, seconds: float) -> list[dict[str, Any]]:
        """As `WorkerPool.run`."""
        found = self._threads.map(lambda pool: pool.run(seconds), self._pools)
        return [report for reports in found for report in reports]
