"""One customer, a process of its own: locks the account, reads it, works, and withdraws money.

It reads its job as a line of JSON, and prints what it does as lines of JSON with the time of the
monotonic clock. Each withdrawal notes itself on the server in the same step. So its moment is known
even if its reply is lost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from demo_project.bank.processes import read_job, say

LEASE = 2
WAIT = 20.0
MONEY, PAID = "money", "paid"
NOTES = ":notes"
"""The end of the key of a stream, in which the server notes each withdrawal by its own clock."""


@dataclass(frozen=True)
class Job:
    """What to do: as whom, with which lock, over which address, on which account."""

    who: str
    lock: str
    url: str
    account: str
    cents: int
    work_seconds: float

    @property
    def moves(self) -> list[tuple[str | int, ...]]:
        """The commands of the withdrawal."""
        return [
            ("HINCRBY", self.account, MONEY, -self.cents),
            ("HINCRBY", self.account, PAID, self.cents),
            ("XADD", self.account + NOTES, "*", "who", self.who),
        ]


def withdraw_with_book_lock(job: Job) -> None:
    """Withdraw as the book does: the lock ends by its expiry, and the write does not check it."""
    from demo_project.benchmark.book_locks import lua_lock

    client = redis.Redis.from_url(job.url)
    client.ping()
    begin()
    with lua_lock(client, job.account, wait=WAIT, lease=LEASE):
        say("holds", "acquires the lock")
        with letting_go("releases the lock"):
            if not is_covered(job, client.hget(job.account, MONEY)):
                return
            time.sleep(job.work_seconds)
            pipe: Any
            with client.pipeline(transaction=True) as pipe:
                for command in job.moves:
                    pipe.execute_command(*command)
                pipe.execute()
            say("heard")


def withdraw_with_redis_lock(job: Job) -> None:
    """Withdraw with `redis_lock`: it is renewed, and the server writes only if it is held."""
    from redis_locks import LockLost, inspection, redis_lock

    lock = redis_lock(job.account, wait=WAIT, lease=LEASE, read=[("HGET", job.account, MONEY)])
    inspection.lock(job.account)
    begin()
    found = inspection.lock(job.account)
    for holder in found.holders if found else ():
        say("sees", f"waits for process {holder.pid}")
    with lock as hold:
        say("holds", f"acquires the lock, token …{hold.fencing_token % 1_000_000}")
        (balance,) = hold.read
        if not is_covered(job, balance):
            say("released", "releases the lock")
            return
        time.sleep(job.work_seconds)
        try:
            # The server withdraws and releases in one step.
            hold.commit(job.moves)
        except LockLost:
            say("unwritten", "is refused its withdrawal by the server")
            raise
        say("heard", "hears that both are done")


@contextmanager
def letting_go(text: str) -> Iterator[None]:
    """Say that the lock is released, before asking the server to release it.

    From then on this process uses it no more.
    """
    try:
        yield
    finally:
        say("released", text)


def begin() -> None:
    """Say that everything is loaded and connected, and wait for the word."""
    say("ready")
    sys.stdin.readline()
    say("asks")


def is_covered(job: Job, balance: bytes | str | None) -> bool:
    """Whether the account has enough money; says so."""
    cents = int(balance or 0)
    if cents < job.cents:
        say("refused", f"reads {cents / 100:.2f}: not enough")
        return False
    say("read", f"reads {cents / 100:.2f}")
    return True


WITHDRAWALS = {"book": withdraw_with_book_lock, "redis_lock": withdraw_with_redis_lock}


def main() -> None:
    """Do the job that comes first on standard input."""
    import django
    from django.conf import settings

    job = Job(**read_job())
    settings.configure(REDIS_LOCKS={"CONNECTION": job.url, "STATISTICS": False})
    django.setup()
    from redis_locks import LockError

    try:
        WITHDRAWALS[job.lock](job)
    except LockError as error:
        say("told", f"is told: {type(error).__name__}")
    except redis.RedisError as error:
        say("told", f"sees {type(error).__name__}")


if __name__ == "__main__":
    main()
