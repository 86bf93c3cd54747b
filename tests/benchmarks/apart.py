"""Clients that share no memory: each process started by itself, where those of one pool are forked from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from demo_project.benchmark.measurement import client_pool
from demo_project.benchmark.pool import WorkerPool


class ApartPool:
    """Pools of one client each, used as one; see `Workers`."""

    def __init__(self, pools: Sequence[WorkerPool], threads: ThreadPoolExecutor) -> None:
        self._pools = pools
        self._threads = threads

    def prepare(self, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        each = zip(self._pools, jobs, strict=True)
        return [pid for pool, job in each for pid in pool.prepare([job])]

    def run(self, seconds: float) -> list[dict[str, Any]]:
        found = self._threads.map(lambda pool: pool.run(seconds), self._pools)
        return [report for reports in found for report in reports]


@contextmanager
def apart_pool(size: int) -> Iterator[ApartPool]:
    """So many clients, until the block ends."""
    with ExitStack() as stack:
        pools = [stack.enter_context(client_pool(1)) for _ in range(size)]
        yield ApartPool(pools, stack.enter_context(ThreadPoolExecutor(size)))
