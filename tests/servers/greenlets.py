"""Checks of locks under gevent's patches; `test_greenlets.py` runs them and reads the output."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402 - only what is imported from here on is patched
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from typing import Any  # noqa: E402

import django  # noqa: E402
import gevent  # noqa: E402
from django.conf import settings  # noqa: E402
from django.test import override_settings  # noqa: E402

settings.configure(
    REDIS_LOCKS={"CONNECTION": os.environ["REDIS_LOCKS_TEST_URL"], "DEADLOCK_TIMEOUT": 0.1},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["redis_locks"],
)
django.setup()

from django.db import transaction  # noqa: E402

from redis_locks import DeadlockDetected, Lock, LockLost, LockNotAvailable, inspection, lock_timeout  # noqa: E402
from redis_locks.testing.server import EmbeddedServer  # noqa: E402
from tests.support import leases  # noqa: E402
from tests.support.breakers import breaker_at, open_it  # noqa: E402

PATIENCE = 20.0


def waiting(name: str) -> int:
    found = inspection.lock(name)
    return found.waiting if found else 0


def until(happened: Callable[[], Any]) -> None:
    with gevent.Timeout(PATIENCE):
        while not happened():
            gevent.sleep(0.002)


def others_run_while_one_waits_and_a_release_wakes_it(name: str) -> None:
    lock = Lock(name, wait=PATIENCE)
    ticks = 0
    with lock:
        waiters = [gevent.spawn(lambda: lock.acquire().release()) for _ in range(20)]  # type: ignore[union-attr]
        until(lambda: waiting(name) == 20)
        for _ in range(20):
            gevent.sleep(0)
            ticks += 1
    gevent.joinall(waiters, timeout=PATIENCE, raise_error=True)
    assert ticks == 20
    assert inspection.lock(name) is None


def updates_are_not_lost(name: str) -> None:
    lock, total = Lock(name, wait=PATIENCE), 0

    def add() -> None:
        nonlocal total
        for _ in range(10):
            with lock:
                seen = total
                gevent.sleep(0)
                total = seen + 1

    gevent.joinall([gevent.spawn(add) for _ in range(20)], timeout=PATIENCE, raise_error=True)
    assert total == 200


def a_lease_is_renewed_and_its_loss_is_told(name: str) -> None:
    hold = Lock(name, lease=0.6).acquire()
    leases.until_renewed(hold)
    inspection.force_release(name)
    until(lambda: hold.is_lost)
    try:
        hold.release()
    except LockLost:
        return
    raise AssertionError("the loss was not told")


def each_greenlet_is_a_holder_of_its_own(name: str) -> None:
    """So a deadlock of two greenlets is found, and one that waits for a third is none."""
    met = threading.Barrier(2)

    def cross(first: str, second: str) -> str:
        with Lock(first):
            met.wait(PATIENCE)
            try:
                with Lock(second, wait=PATIENCE):
                    return "got both"
            except DeadlockDetected:
                return "ended"

    a, b = f"{name}:a", f"{name}:b"
    pair = [gevent.spawn(cross, a, b), gevent.spawn(cross, b, a)]
    gevent.joinall(pair, timeout=PATIENCE, raise_error=True)
    assert sorted(each.value for each in pair) == ["ended", "got both"]


def a_greenlet_killed_while_it_waits_leaves_nothing(name: str) -> None:
    lock = Lock(name, wait=PATIENCE)
    with lock:
        for end in (gevent.Timeout(), gevent.GreenletExit()):
            waiter = gevent.spawn(lock.acquire)
            until(lambda: waiting(name) == 1)
            waiter.kill(end)
            until(lambda: waiting(name) == 0)
    assert inspection.lock(name) is None


def a_greenlet_killed_while_it_holds_releases(name: str) -> None:
    def hold() -> None:
        with Lock(name):
            gevent.sleep(PATIENCE)

    holder = gevent.spawn(hold)
    until(lambda: inspection.lock(name))
    holder.kill()
    assert inspection.lock(name) is None


def bounds_are_each_greenlet_s_own(name: str) -> None:
    with Lock(name), lock_timeout(0):
        patient = gevent.spawn(lambda: Lock(name, wait=PATIENCE).acquire())
        until(lambda: waiting(name) == 1)
    hold = patient.get(timeout=PATIENCE)
    hold.release()


def a_hold_is_kept_until_its_own_transaction_ends(name: str) -> None:
    go_on = threading.Event()

    def write() -> None:
        with transaction.atomic():
            with Lock(name):
                pass
            go_on.wait(PATIENCE)

    writer = gevent.spawn(write)
    until(lambda: inspection.lock(name))
    waiter = gevent.spawn(Lock(name, wait=PATIENCE).acquire)
    until(lambda: waiting(name) == 1)
    go_on.set()
    writer.get(timeout=PATIENCE)
    hold = waiter.get(timeout=PATIENCE)
    hold.release()


def greenlets_and_threads_are_other_parties(name: str) -> None:
    def ask() -> bool:
        try:
            with Lock(name, wait=0):
                return True
        except LockNotAvailable:
            return False

    def elsewhere() -> list[bool]:
        with ThreadPoolExecutor(1) as pool:
            return [gevent.spawn(ask).get(), pool.submit(ask).result()]

    def suspended() -> Iterator[None]:
        with Lock(name):
            yield

    with Lock(name):
        assert ask()
        assert not any(elsewhere())
    holds = suspended()
    next(holds)
    assert not ask()
    assert not any(elsewhere())
    holds.close()
    hold = Lock(name).acquire()
    assert not ask()
    assert not any(elsewhere())
    with hold:
        assert ask()
        assert not any(elsewhere())
    assert ask()


def a_generator_closed_by_another_greenlet_releases(name: str) -> None:
    def suspended() -> Iterator[None]:
        with Lock(name):
            yield

    holds = suspended()
    next(holds)
    gevent.spawn(holds.close).get(timeout=PATIENCE)
    assert inspection.lock(name) is None


class TimeIsUp(OSError):
    """As a time limit of a project's own may be."""


class Stop(BaseException):
    """As a task queue's own may be."""


KINDS = (None, TimeoutError, TimeIsUp, ConnectionResetError, Stop)
"""What a time limit raises; None: itself."""


def gets_through(lock: Lock, seconds: float, kind: type[BaseException] | None) -> bool:
    """Whether a time limit on an acquire reaches the caller as it is."""
    limit = gevent.Timeout(seconds, kind)
    try:
        with limit:
            lock.acquire()
    except BaseException as error:  # noqa: BLE001 - judged here
        return error is limit if kind is None else type(error) is kind
    return False


def cut(lock: Lock, *after: float) -> None:
    """Let time limits end acquires of the lock, which cannot be had."""
    for seconds in after:
        for kind in KINDS:
            asked = gevent.spawn(gets_through, lock, seconds, kind)
            assert asked.get(timeout=PATIENCE), (seconds, kind)


def a_time_limit_reaches_who_waits_in_line(name: str) -> None:
    with Lock(name):
        cut(Lock(name, wait=PATIENCE), 0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
        until(lambda: waiting(name) == 0)
    assert inspection.lock(name) is None


def a_time_limit_reaches_who_waits_for_a_connection(name: str) -> None:
    few = {**settings.REDIS_LOCKS, "MAX_CONNECTIONS": 10}
    with override_settings(REDIS_LOCKS=few):
        lock = Lock(name, wait=PATIENCE)
        with lock:
            crowd = [gevent.spawn(lock.acquire) for _ in range(30)]
            until(lambda: waiting(name))
            cut(lock, 0.0, 0.01, 0.1)
            gevent.killall(crowd)
            until(lambda: waiting(name) == 0)
        assert inspection.lock(name) is None


def a_time_limit_reaches_who_asks_a_silent_server(name: str) -> None:
    with EmbeddedServer(use_environment=False) as server:
        url = f"{server.url}?socket_timeout=0.5"
        with Lock(name, using=url):
            pass
        os.kill(server.pid, signal.SIGSTOP)
        try:
            cut(Lock(name, using=url, wait=None), 0.0, 0.01, 0.1)
            open_it(Lock(name, using=url), url)
            cut(Lock(name, using=url, wait=None), 0.0, 0.01, 0.1)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        until(lambda: not breaker_at(url).is_open)
        until(lambda: inspection.lock(name, using=url) is None)


CHECKS = (
    a_time_limit_reaches_who_waits_in_line,
    a_time_limit_reaches_who_waits_for_a_connection,
    a_time_limit_reaches_who_asks_a_silent_server,
    greenlets_and_threads_are_other_parties,
    a_generator_closed_by_another_greenlet_releases,
    others_run_while_one_waits_and_a_release_wakes_it,
    updates_are_not_lost,
    a_lease_is_renewed_and_its_loss_is_told,
    each_greenlet_is_a_holder_of_its_own,
    a_greenlet_killed_while_it_waits_leaves_nothing,
    a_greenlet_killed_while_it_holds_releases,
    bounds_are_each_greenlet_s_own,
    a_hold_is_kept_until_its_own_transaction_ends,
)


def run(check: Callable[[str], None], name: str) -> str:
    """Return what went wrong, or nothing."""
    try:
        check(f"{name}:{check.__name__}")
    except BaseException:  # noqa: BLE001 - reported
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    results = {check.__name__: run(check, sys.argv[1]) for check in CHECKS}
    sys.stdout.write(json.dumps(results))
