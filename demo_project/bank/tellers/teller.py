"""A teller, a process of its own: takes a permit for each customer, and gives it back.

It reads its job as a line of JSON, and prints what it does as lines of JSON with the time of the
monotonic clock.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import redis

from demo_project.bank.processes import read_job, say

LEASE = 3.0
WAIT = 120.0


@dataclass(frozen=True)
class Job:
    """The teller's name, its branch, and how many seconds each customer takes."""

    url: str
    name: str
    seconds: float
    who: str = ""

    @property
    def line(self) -> str:
        """The key of the list of customers who wait."""
        return f"{self.name}:line"

    @property
    def desk(self) -> str:
        """The key of the list with the customer whom this teller serves."""
        return f"{self.name}:desk:{self.who}"

    @property
    def served(self) -> str:
        """The key of the list of customers who were served."""
        return f"{self.name}:served"

    @property
    def permits(self) -> str:
        """The key of how many tellers may serve at once."""
        return f"{self.name}:permits"


def serve(client: redis.Redis, job: Job) -> None:
    """Serve customers until none is left."""
    from redis_locks import Semaphore

    while client.llen(job.line):
        capacity = int(client.get(job.permits) or 1)
        label = f"teller {job.who}"
        with Semaphore(job.name, capacity, lease=LEASE, wait=WAIT, label=label):
            say("holds", f"takes a permit, one of {capacity}")
            customer: Any = client.lmove(job.line, job.desk, "LEFT", "RIGHT")
            if customer is not None:
                time.sleep(job.seconds)
                client.lmove(job.desk, job.served, "LEFT", "RIGHT")
                say("served", f"has served customer {customer.decode()}")
            say("released")


def main() -> None:
    """Do the job that comes first on standard input."""
    import django
    from django.conf import settings

    job = Job(**read_job())
    settings.configure(REDIS_LOCKS={"CONNECTION": job.url, "HISTORY": 500})
    django.setup()
    from redis_locks import LockError

    client = redis.Redis.from_url(job.url)
    client.ping()
    say("ready")
    sys.stdin.readline()
    try:
        serve(client, job)
    except (LockError, redis.RedisError) as error:
        say("failed", f"stops: {error}")
    else:
        say("ended", "goes home, as no customer waits")


if __name__ == "__main__":
    main()
