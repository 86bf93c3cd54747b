"""Run as a script: workers of a set of jobs, killed at random and replaced until all settle.

Arguments: the server's URL, the prefix of the jobs, how many jobs, how many workers, the attempts
of a job, "blocking" or "async", how many workers are killed at most. Prints how many workers were
killed.

What happens in a job is written to a list of the server, one line each, without run_once's help:
"begun NUMBER FENCE", "failed NUMBER", "done NUMBER".
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

import redis  # noqa: E402 - after setup

from redis_locks import LockError, run_once  # noqa: E402
from tests.support.connections import run_blocking  # noqa: E402
from tests.support.thread_or_task import ThreadOrTask  # noqa: E402

SUCCESS_CHANCE = 0.15
LEASE = 0.5
TASKS = 4


class Worker(ThreadOrTask):
    """Tries random jobs until none is left to do."""

    def __init__(self, url: str, prefix: str, jobs: int, most: int, *, tasks: bool) -> None:
        super().__init__(tasks=tasks)
        self.client = redis.Redis.from_url(url)
        self.url, self.prefix, self.most = url, prefix, most
        self.pending = set(range(jobs))

    def job(self, number: int) -> run_once:
        return run_once(
            f"{self.prefix}:{number}",
            using=self.url,
            max_attempts=self.most,
            lease=LEASE,
            wait=random.choice([0, 0.3]),
            store_result=True,
        )

    def note(self, number: int, line: str) -> None:
        self.client.rpush(f"{self.prefix}:log:{number}", line)

    async def work(self, number: int) -> None:
        attempt = await self._call(self.job(number), "acquire")
        if attempt is None:
            status = await self._call(self.job(number), "status")
            if status.state in ("done", "exhausted"):
                self.pending.discard(number)
            return
        self.note(number, f"begun {attempt.number} {attempt.fencing_token}")
        await self._sleep(random.uniform(0, 0.03))  # the work itself
        if random.random() < SUCCESS_CHANCE:
            await self._call(attempt, "done", attempt.number)
            self.note(number, f"done {attempt.number}")
        else:
            await self._call(attempt, "fail", "out of luck")
            self.note(number, f"failed {attempt.number}")

    async def work_on(self) -> None:
        while self.pending:
            # If a lock is lost, this machine is too busy; another attempt follows.
            with suppress(LockError):
                await self.work(random.choice(tuple(self.pending)))

    async def in_tasks(self) -> None:
        await asyncio.gather(*(self.work_on() for _ in range(TASKS)))


def hire(start: Callable[[], None]) -> int:
    """Fork a worker; it ends with status 0 when all jobs are settled."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        random.seed()
        start()
        status = 0
    except BaseException:  # noqa: BLE001 - the parent sees the status
        traceback.print_exc()
    os._exit(status)


def main(url: str, prefix: str, jobs: int, workers: int, most: int, mode: str, kills: int) -> int:
    def start() -> None:
        worker = Worker(url, prefix, jobs, most, tasks=mode == "async")
        if mode == "async":
            asyncio.run(worker.in_tasks())
        else:
            run_blocking(worker.work_on())

    crew = [hire(start) for _ in range(workers)]
    killed = 0
    while crew:
        time.sleep(random.uniform(0.01, 0.08))
        victim = random.choice(crew)
        done, status = os.waitpid(victim, os.WNOHANG)
        if done:
            if status:
                raise SystemExit(f"a worker ended with status {status}")
            crew.remove(victim)
            continue
        if killed == kills:
            continue
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        killed += 1
        crew[crew.index(victim)] = hire(start)
    return killed


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    url, prefix, jobs, workers, most, mode, kills = arguments
    print(main(url, prefix, int(jobs), int(workers), int(most), mode, int(kills)))  # noqa: T201
