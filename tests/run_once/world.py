"""One vocabulary for both worlds: every rule of run_once is tested with threads and with tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from redis_locks import Attempt, RunStatus, run_once
from tests.elsewhere import in_thread
from tests.ledger.models import Counter
from tests.support import leases, stored
from tests.support.keys import LockKeys, index_key, lock_keys
from tests.support.world import Observer, Tasks, Threads


class Verbs:
    """What workers do with jobs and attempts, by the methods of either world."""

    do: Callable[..., Any]

    def acquire(self, job: Any, **options: Any) -> Any:
        return self.do(job, "acquire", **options)

    def done(self, attempt: Attempt, *result: Any) -> None:
        self.do(attempt, "done", *result)

    def fail(self, attempt: Attempt, error: BaseException | str) -> None:
        self.do(attempt, "fail", error)

    def status(self, job: run_once) -> RunStatus:
        return self.do(job, "status")


class BlockingWorkers(Verbs, Threads):
    """Workers are threads."""

    def function(self, job: run_once, body: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `body`, as this world's users would write it."""
        return job(body)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


class AsyncWorkers(Verbs, Tasks):
    """Workers are tasks of one event loop."""

    def function(self, job: run_once, body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return body(*args, **kwargs)

        return job(coroutine)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.run(self._call(function, *args, **kwargs))

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)


Workers = BlockingWorkers | AsyncWorkers


class Records(Observer):
    """Reads and disturbs the server's side of a job."""

    client: Any

    def keys(self, name: str) -> LockKeys:
        return lock_keys("redis_locks", 0, name)

    def record(self, name: str) -> str:
        return f"redis_locks{{0}}:run:{name}"

    def of(self, name: str) -> dict[str, str]:
        found = self.client.hgetall(self.record(name))
        return {field.decode(): value.decode() for field, value in found.items()}

    def kept(self, name: str) -> float:
        """Seconds until the record of the job goes; negative if there is none."""
        return self.client.pttl(self.record(name)) / 1000

    def kept_until(self, name: str) -> float:
        return self.client.pexpiretime(self.record(name)) / 1000

    def forget(self, name: str) -> None:
        self.client.delete(self.record(name))

    def let_die(self, name: str) -> None:
        """End the lease of whoever holds the lock of the job, as if its process had died."""
        stored.end_lease(self.client, self.keys(name).lock)

    def left(self, name: str) -> set[str]:
        """What is in Redis of the job's lock, its fencing counter aside."""
        left = stored.in_use(self.client, self.keys(name).lock)
        if self.client.zscore(index_key("redis_locks", 0), name) is not None:
            left.add("index")
        return left


def begun(workers: Workers, job: run_once, **options: Any) -> Attempt:
    """Acquire an attempt, which must be there."""
    attempt = workers.acquire(job, **options)
    assert isinstance(attempt, Attempt)
    return attempt


def died(workers: Workers, records: Records, job: run_once, name: str) -> Attempt:
    """Acquire an attempt whose process dies at once."""
    attempt = begun(workers, job)
    leases.run_out(attempt)  # what is dead renews nothing
    records.let_die(name)
    return attempt


class Payment:
    """A job that writes a row each time that it runs."""

    def __init__(self, database: str, name: str, **options: Any) -> None:
        self.database, self.name, self.runs = database, name, 0
        self.options: Any = {"store_result": True, **options}

    @property
    def job(self) -> Any:
        return run_once(self.name, **self.options)

    def work(self) -> list[int]:
        self.runs += 1
        Counter.objects.using(self.database).create(name=f"{self.name}:{self.runs}")
        return [self.runs]

    def call(self) -> Any:
        return self.job(self.work)()

    def elsewhere(self) -> str:
        """What another thread sees of it."""
        return in_thread(self.job.status).state

    @property
    def rows(self) -> int:
        return Counter.objects.using(self.database).filter(name__startswith=self.name).count()
