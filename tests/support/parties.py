"""Holders and waiters for tests of what others see of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from threading import Thread
from typing import Any
from unittest import mock

from redis_locks import Hold, Lock, LockError, LockLost, inspection
from redis_locks.connections.backends import known
from redis_locks.locks import lock
from redis_locks.values import identity
from redis_locks.values.claims import Who, write_who
from tests.support import scripts
from tests.support.connections import backend_for, run_blocking

MINUTES = 600_000
"""Ten, in milliseconds."""


def ask(
    asked: Iterable[tuple[str, str]],
    *,
    wait: int,
    using: str | None = None,
    host: str = "web-1",
    mode: str = "exclusive",
    label: str = "many",
    lease_ms: int = MINUTES,
) -> None:
    """Have locks asked for, each by a token, many in a round trip.

    Threads for so many would take their time.

    Each is granted, or waits for `wait` milliseconds, in this order.
    """
    backend = backend_for(using)
    link = run_blocking(backend.driver.checkout())
    who = write_who(host, 4711, "thread MainThread", label)
    calls = (
        (backend.keys(name), (token, str(lease_ms), mode, who, link.listener, str(wait), "1"))
        for name, token in asked
    )
    while some := list(islice(calls, 100)):  # a busy machine answers these in time, too
        replies = run_blocking(link.call_many(scripts.ACQUIRE, some))
        assert not any(isinstance(reply, Exception) for reply in replies)
    backend.driver.checkin(link)


def stand_in_a_chain(length: int) -> None:
    """Have so many hold a lock each, "lock:N", and wait for that of the one before."""
    ask(((f"lock:{number}", f"session{number}.1") for number in range(length + 1)), wait=0)
    ask(((f"lock:{number}", f"session{number + 1}.2") for number in range(length)), wait=MINUTES)


@contextmanager
def held(name: str, **options: Any) -> Iterator[Hold]:
    """Hold a lock with such options, and yield the `Hold`, which somebody else may release."""
    hold = Lock(name, **{"lease": 60, "renew": False} | options).acquire(wait=0)
    assert hold
    try:
        yield hold
    finally:
        with suppress(LockLost):
            hold.release()


@contextmanager
def on_host(host: str, pid: int | None = None) -> Iterator[None]:
    """Let callers ask for locks as from another host, and perhaps with this process number."""

    def who(own: int, unit: str, label: str | None, _channel: str | None) -> str:
        return write_who(host, pid or own, unit, label)

    def who_is(unit: str, label: str | None) -> Who:
        its = who_is_here(unit, label)
        return its._replace(host=host, pid=pid or its.pid)

    who_is_here = identity.who_is
    try:
        with (
            mock.patch.object(identity, "written", who),
            mock.patch.object(identity, "who_is", who_is),
        ):
            _forget_who_asks()
            yield
    finally:
        _forget_who_asks()


def _forget_who_asks() -> None:
    """A link keeps the end of packets for locks of the same terms, with who asks."""
    for backend in known.values():
        backend.terms.clear()
    lock._kept_plans.cache_clear()


@contextmanager
def waited_for(
    name: str,
    label: str = "waiter",
    *,
    holding: str | None = None,
    also: tuple[str, ...] = (),
    lease: float = 10,
    using: str | None = None,
) -> Iterator[list[LockError]]:
    """Have a thread stand in line for a lock that is held, perhaps while it holds another.

    It may want others `also`, all or none. With a shorter `lease` it asks again sooner. Yields the
    list in which the error is noted that the wait ends with, if it does.
    """
    told: list[LockError] = []

    def wait() -> None:
        with ExitStack() as stack:
            if holding:
                stack.enter_context(held(holding, label=label, using=using))
            try:
                hold = Lock(name, *also, wait=20, label=label, lease=lease, using=using).acquire()
            except LockError as error:
                told.append(error)
                return
            assert hold
            with suppress(LockLost):
                hold.release()

    def waiting() -> int:
        info = inspection.lock(name, using=using)
        return info.waiting if info else 0

    before = waiting()
    thread = Thread(target=wait, name=f"thread of {label}")
    thread.start()
    while waiting() <= before:
        assert thread.is_alive()
    try:
        yield told
    finally:
        inspection.force_release(name, using=using)
        thread.join()
