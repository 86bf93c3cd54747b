"""What a client does in a cycle of each kind: ``python -m tests.benchmarks.cycles URL``.

`instructions` counts it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    """Count the instructions of a block, and of counting its locks, which is put off."""
    from redis_locks.events.dispatch import teller

    assert teller.statistics is not None
    teller.statistics.catch_up()
    gc.collect()
    gc.freeze()
    os.getloadavg()
    yield
    teller.statistics.catch_up()
    os.getloadavg()


Kinds = dict[str, Callable[[], object]]
"""What a cycle of each kind does."""


def entered(*contexts: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
    """Return what enters these contexts, one in the other, and leaves them."""
    match contexts:
        case (only,):

            def cycle() -> None:
                with only():
                    pass

        case (outer, inner):

            def cycle() -> None:
                with outer(), inner():
                    pass

    return cycle


def plain() -> Kinds:
    """The kinds of blocks and calls that take one lock."""
    from django.db import transaction

    from redis_locks import Lock, Semaphore, redis_lock, run_once

    number = count()
    lock = Lock(LOCK, wait=None)
    shared = Lock("read", mode="shared", wait=None)
    semaphore = Semaphore("few", 3, wait=None)

    @redis_lock("known:{i}", wait=None)
    def decorated(i: int) -> None:
        pass

    @run_once("known:{i}")
    def once(i: int) -> None:
        pass

    def with_() -> None:
        with lock:
            pass

    def nested() -> None:
        with lock, lock:
            pass

    return {
        "with": with_,
        "uncounted": with_,
        "contended": with_,
        "receiver": with_,
        "nested": nested,
        "new lock": entered(lambda: Lock(LOCK, wait=None)),
        "new name": entered(lambda: Lock(f"new:{next(number)}", wait=None)),
        "shared": entered(lambda: shared),
        "semaphore": entered(lambda: semaphore),
        "decorated": lambda: decorated(1),
        "decorated, new name": lambda: decorated(next(number)),
        "run_once": lambda: once(next(number)),
        "django alone": entered(transaction.atomic),
        "atomic": entered(transaction.atomic, lambda: lock),
    }


def transfers() -> Kinds:
    """The kinds that move money between two accounts in Redis."""
    from redis_locks import Lock

    number = count()

    def among(accounts: int) -> Callable[[], None]:
        def cycle() -> None:
            first = next(number)
            pair = f"acc:{first % accounts}", f"acc:{(first + 1) % accounts}"
            reads = [("HGET", name, "money") for name in pair]
            with Lock(*pair, wait=None, read=reads) as hold:
                hold.commit(
                    [("HINCRBY", name, "money", by) for name, by in zip(pair, (-1, 1), strict=True)]
                )

        return cycle

    return {
        "transfer": among(2),
        "transfer, many": among(MANY),
        "transfer, new names": among(10**9),
    }


def transactions() -> Kinds:
    """The kinds that do so without a lock."""
    from redis_locks import optimistic

    @optimistic(
        watch=("acc:0", "acc:1"), read=[("HGET", "acc:0", "money"), ("HGET", "acc:1", "money")]
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

    return {"optimistic": fixed, "optimistic, templates": lambda: templates(first=0, second=1)}


def blocking() -> Kinds:
    """Return what a cycle of each kind of blocking code does."""
    return plain() | transfers() | transactions()


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
    from django.conf import settings
    from django.test import override_settings

    from redis_locks.signals import lock_acquired

    for kind in kinds:
        if kind == "asyncio":
            asyncio.run(in_a_loop())
            continue
        cycle = blocking()[kind]
        if kind == "receiver":
            lock_acquired.connect(_heard)
        # Other settings make other plans, so only this kind has others.
        uncounted = override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "STATISTICS": False})
        with uncounted if kind == "uncounted" else nullcontext():
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

    from redis_locks.statistics import collector

    url, *kinds = sys.argv[1:]
    settings.configure(
        INSTALLED_APPS=["redis_locks"],
        SECRET_KEY="of a benchmark",  # noqa: S106 - nothing is signed
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REDIS_LOCKS={"CONNECTION": url, "WAIT": None},
    )
    django.setup()
    # What each process sends now and then, however often it acquires, is no part of a cycle.
    collector.INTERVAL = 3600.0
    if kinds == ["crowd"]:
        crowd()
    client(kinds)
    sys.stdout.flush()
    os._exit(0)  # what ends a process is no part of a cycle


if __name__ == "__main__":
    main()
