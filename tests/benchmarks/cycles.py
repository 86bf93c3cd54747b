"""What a client does in a cycle of each kind, for `instructions`, which counts it: ``python -m tests.benchmarks.cycles URL``."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import django

MARK = "getloadavg"
"""The C function that a client calls before what is counted, and after it."""

WARM, COUNTED = 100, 300
"""How many cycles are run before, and how many are counted."""

MANY = 1000
"""How many accounts there are where there are many; all are known before it is counted."""

LOCK = "known"
"""The lock that all share."""


@contextmanager
def counted() -> Iterator[None]:
    """Count the instructions of a block."""
    gc.collect()
    gc.freeze()
    os.getloadavg()
    yield
    os.getloadavg()


def blocking() -> dict[str, Callable[[], object]]:
    """Return what a cycle of each kind does."""
    from django.db import transaction

    from redis_locks import Lock, Semaphore, optimistic, redis_lock, run_once

    number = count()
    lock = Lock(LOCK, wait=None)
    shared = Lock("read", mode="shared", wait=None)
    semaphore = Semaphore("few", 3, wait=None)

    def transfer(first: str, second: str) -> None:
        reads = [("HGET", first, "money"), ("HGET", second, "money")]
        with Lock(first, second, wait=None, read=reads) as hold:
            hold.commit([("HINCRBY", first, "money", -1), ("HINCRBY", second, "money", 1)])

    @redis_lock("known:{i}", wait=None)
    def decorated(i: int) -> None:
        pass

    @run_once("known:{i}")
    def once(i: int) -> None:
        pass

    @optimistic(
        watch=("acc:0", "acc:1"),
        read=[("HGET", "acc:0", "money"), ("HGET", "acc:1", "money")],
    )
    def fixed(pipe: Any) -> None:
        pipe.multi()
        pipe.hincrby("acc:0", "money", -1)
        pipe.hincrby("acc:1", "money", 1)

    @optimistic(
        watch=("acc:{first}", "acc:{second}"),
        read=[("HGET", "acc:{first}", "money"), ("HGET", "acc:{second}", "money")],
    )
    def templates(pipe: Any, first: int, second: int) -> None:
        pipe.multi()
        pipe.hincrby(f"acc:{first}", "money", -1)
        pipe.hincrby(f"acc:{second}", "money", 1)

    def with_() -> None:
        with lock:
            pass

    def new_lock() -> None:
        with Lock(LOCK, wait=None):
            pass

    def new_name() -> None:
        with Lock(f"new:{next(number)}", wait=None):
            pass

    def nested() -> None:
        with lock, lock:
            pass

    def share() -> None:
        with shared:
            pass

    def permit() -> None:
        with semaphore:
            pass

    def django_alone() -> None:
        with transaction.atomic():
            pass

    def atomic() -> None:
        with transaction.atomic(), lock:
            pass

    def among(accounts: int) -> Callable[[], None]:
        def cycle() -> None:
            first = next(number)
            transfer(f"acc:{first % accounts}", f"acc:{(first + 1) % accounts}")

        return cycle

    return {
        "with": with_,
        "contended": with_,
        "new lock": new_lock,
        "new name": new_name,
        "decorated": lambda: decorated(1),
        "decorated, new name": lambda: decorated(next(number)),
        "nested": nested,
        "shared": share,
        "semaphore": permit,
        "run_once": lambda: once(next(number)),
        "django alone": django_alone,
        "atomic": atomic,
        "transfer": among(2),
        "transfer, many": among(MANY),
        "transfer, new names": among(10**9),
        "optimistic": fixed,
        "optimistic, templates": lambda: templates(first=0, second=1),
        "receiver": with_,
    }


async def in_a_loop() -> None:
    """Count the cycle of a task."""
    from redis_locks import Lock

    lock = Lock(LOCK, wait=None)
    for _ in range(WARM):
        async with lock:
            pass
    with counted():
        for _ in range(COUNTED):
            async with lock:
                pass


def crowd() -> None:
    """Take the lock again and again, until this process is ended."""
    cycle = blocking()["contended"]
    while True:
        cycle()


def client(kinds: list[str]) -> None:
    """Count a cycle of each of these kinds."""
    from redis_locks.signals import lock_acquired

    for kind in kinds:
        if kind == "asyncio":
            asyncio.run(in_a_loop())
            continue
        cycle = blocking()[kind]
        if kind == "receiver":
            lock_acquired.connect(_heard)
        for _ in range(MANY + WARM if kind == "transfer, many" else WARM):
            cycle()
        with counted():
            for _ in range(COUNTED):
                cycle()


def _heard(**_: object) -> None:
    pass


def main() -> None:
    """Run what the arguments name."""
    from django.conf import settings

    url, *kinds = sys.argv[1:]
    settings.configure(
        INSTALLED_APPS=["redis_locks"],
        SECRET_KEY="of a benchmark",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REDIS_LOCKS={"CONNECTION": url, "WAIT": None},
    )
    django.setup()
    if kinds == ["crowd"]:
        crowd()
    client(kinds)
    sys.stdout.flush()
    os._exit(0)  # what ends a process is no part of a cycle


if __name__ == "__main__":
    main()
