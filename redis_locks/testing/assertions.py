"""Assertions about locks for tests, on a real server or under `override_locks`."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from redis_locks import inspection
from redis_locks.inspection import HolderInfo


def assert_locked(name: str, *, using: str | None = None) -> None:
    """Assert that somebody, in any process, holds the lock `name` now; blocks for a round trip.

    Args:
        name: The lock.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        AssertionError: Nobody holds it; the text lists the locks that are held.
        LockBackendError: Redis could not be asked.
    """
    if not _holders(name, using):
        held = [info.name for info in inspection.locks(using=using, limit=20) if info.holders]
        others = f"held are {', '.join(map(repr, held))}" if held else "no lock is held"
        raise AssertionError(f"lock {name!r} is not held; {others}")


def assert_released(name: str, *, using: str | None = None) -> None:
    """Assert that nobody, in any process, holds the lock `name` now; blocks for a round trip.

    Args:
        name: The lock.
        using: As for `assert_locked`.

    Raises:
        AssertionError: Somebody holds it; the text says who.
        LockBackendError: Redis could not be asked.
    """
    holders = _holders(name, using)
    if holders:
        raise AssertionError(f"lock {name!r} is held by {'; '.join(map(str, holders))}")


@contextmanager
def assert_not_held_across_commit(
    name: str, *, using: str | None = None, database: str = DEFAULT_DB_ALIAS
) -> Iterator[None]:
    """Assert that what the block holds of the lock `name` ends with the block's transaction.

    The block runs in a transaction of its own. Once that has committed and its on_commit callbacks
    have run, no hold that this process took in the block may be left. Like a row lock, it must end
    with COMMIT. Holds from before the block do not count. Inside a TestCase or pytest-django's
    ``db``, where nothing really commits, the end of the block stands for COMMIT and the callbacks
    run too. If the block raises, nothing is asserted.

    Args:
        name: The lock.
        using: As for `assert_locked`.
        database: The alias in DATABASES.

    Raises:
        AssertionError: A hold is left; the text says whose.
        LockBackendError: Redis could not be asked.
        RuntimeError: There is a transaction around the block that is not a test case's.
    """
    before = {holder.token for holder in _own_holders(name, using)}
    with ExitStack() as stack:
        if connections[database].in_atomic_block:
            from django.test import TestCase  # here: it brings along much of Django

            stack.enter_context(TestCase.captureOnCommitCallbacks(using=database, execute=True))
        stack.enter_context(transaction.atomic(using=database, durable=True))
        yield
    left = [holder for holder in _own_holders(name, using) if holder.token not in before]
    if left:
        msg = f"lock {name!r} is still held after COMMIT by {'; '.join(map(str, left))}"
        raise AssertionError(msg)


def _holders(name: str, using: str | None) -> tuple[HolderInfo, ...]:
    info = inspection.lock(name, using=using)
    return info.holders if info else ()


def _own_holders(name: str, using: str | None) -> list[HolderInfo]:
    here = (socket.gethostname(), os.getpid())
    return [holder for holder in _holders(name, using) if (holder.host, holder.pid) == here]
