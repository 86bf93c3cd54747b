"""What the tests of scopes share: somebody next in line, and a look at the connection's methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections
from django.db.transaction import atomic

from redis_locks import Hold, Lock
from tests.elsewhere import is_free
from tests.ledger.models import Counter
from tests.support.world import PATIENCE, Observer, Threads

T = TypeVar("T")


class Failed(Exception):
    pass


def lock(name: str, database: str, **options: Any) -> Lock:
    return Lock(name, database=database, wait=0, **options)


def take(lock: Lock) -> Hold:
    """Enter the lock's block, and leave it."""
    with lock as hold:
        return hold


@contextmanager
def keeping(name: str, database: str = "default", **options: bool) -> Iterator[None]:
    """A transaction that keeps lock `name` until it ends, and no longer."""
    with atomic(using=database, **options):
        yield
        assert not is_free(name)
    assert is_free(name)


def elsewhere(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a thread, with database connections of its own."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    return Threads().start(run)


def values(database: str, name: str) -> list[int]:
    rows = Counter.objects.using(database).filter(name=name)
    return list(rows.values_list("value", flat=True))


def next_holder(server_side: Observer, database: str, name: str) -> Future[list[int]]:
    """Somebody who waits for the lock, then looks at what was committed; already in the queue."""

    def look() -> list[int]:
        with Lock(name, wait=PATIENCE):
            return values(database, name)

    place = server_side.waiters(name) + 1
    found = elsewhere(look)
    server_side.until_waiters(name, place)
    return found


def increment(database: str, name: str, **written: Any) -> None:
    Counter.objects.using(database).create(name=name, value=1, **written)
