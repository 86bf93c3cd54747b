"""The breaker of a server: while that is silent, calls fail at once, and the log says so once."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.test import override_settings

from redis_locks import Lock, LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.support.breakers import breaker, breaker_at, is_probing, open_it, stopped
from tests.support.children import in_a_child
from tests.support.connections import backend_for, run_blocking
from tests.support.keys import keys_of
from tests.support.stored import holder
from tests.support.waiting import until
from tests.support.world import Observer, Tasks, Threads, granted, held, in_line, served

pytestmark = [pytest.mark.ci, pytest.mark.timeout(120)]

TIMEOUT = 0.5
"""Seconds that a connection waits for a reply, in these tests."""

AT_ONCE = TIMEOUT / 2
"""More than a call takes that asks nobody, and less than any that waits for a reply."""


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as found:
        yield found


@pytest.fixture
def url(server: EmbeddedServer) -> str:
    return f"{server.url}?socket_timeout={TIMEOUT}"


@pytest.fixture
def lock(url: str, name: str) -> Lock:
    """A lock over whose connection a cycle has run."""
    used = Lock(name, using=url)
    with used:
        return used


def fails(lock: Lock, wait: float = 0) -> float:
    """Return how long an acquire took to fail."""
    began = time.monotonic()
    with pytest.raises(LockBackendError):
        lock.acquire(wait=wait)
    return time.monotonic() - began


def works(lock: Lock) -> bool:
    try:
        with lock:
            return True
    except LockBackendError:
        return False


def test_two_silent_connections_open_it_and_the_first_answer_closes_it(
    server: EmbeddedServer, url: str, lock: Lock
) -> None:
    with stopped(server):
        open_it(lock, url)
        assert all(fails(lock, wait) < AT_ONCE for wait in (0, 5, 60))
        assert is_probing(url)
    until(lambda: not breaker_at(url).is_open)
    with lock:
        pass
    until(lambda: not is_probing(url))


def test_the_error_names_server_trouble_duration_and_setting(
    server: EmbeddedServer, url: str, lock: Lock
) -> None:
    with stopped(server):
        open_it(lock, url)
        with pytest.raises(LockBackendError) as caught:
            lock.acquire(wait=0)
    text = str(caught.value)
    for part in (server.url, "connections have failed in", " s. ", "socket_timeout", "0.5 s"):
        assert part in text


def test_a_connection_that_opens_no_other_one_has_answered_nothing(
    server: EmbeddedServer, url: str, lock: Lock, name: str
) -> None:
    """Large replies have a connection of their own; the one beside it is given back as it was."""
    with stopped(server):
        fails(Lock(name, using=url, read=[("GET", name)]))
        assert breaker_at(url).trouble


def test_refused_connections_open_it_after_a_while_and_not_at_once(
    server: EmbeddedServer, url: str, lock: Lock
) -> None:
    server.kill()
    began = time.monotonic()
    fails(lock)
    if time.monotonic() - began < TIMEOUT:  # on a machine that is not too slow
        assert not breaker_at(url).is_open
    open_it(lock, url)
    assert fails(lock, 60) < AT_ONCE
    server.restart()
    until(lambda: works(lock))


def test_the_first_call_after_a_restart_finds_the_server_however_slow_the_machine_is(
    server: EmbeddedServer, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection may take longer there than the pause between two trials.

    No probe comes to help.
    """
    monkeypatch.setattr(breaker, "TRIAL", 1e-6)
    monkeypatch.setattr(breaker, "FIRST_PAUSE", 60.0)
    lock = Lock(name, using=url)
    server.kill()
    open_it(lock, url)
    server.restart()
    assert works(lock)
    assert not breaker_at(url).is_open


def test_it_stays_closed_where_some_connections_are_silent_and_new_ones_are_answered(
    name: str, proxy: Proxy
) -> None:
    """As behind a router that has forgotten all connections that were idle."""
    # Longer than a busy machine stands still: only the forgotten connections are to be silent.
    url = f"{proxy.url}?socket_timeout=2"
    driver = backend_for(url).driver
    for link in [run_blocking(driver.checkout()) for _ in range(3)]:
        driver.checkin(link)  # so there are three idle ones
    proxy.forget(b"")
    together = threading.Barrier(3)

    def ask(number: int) -> None:
        together.wait()
        with Lock(f"{name}:{number}", using=url):
            pass

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(ask, range(3)))
    assert not breaker_at(url).is_open
    assert all(works(Lock(name, using=url)) for _ in range(20))


def test_a_large_read_does_not_open_it(
    server: EmbeddedServer, url: str, lock: Lock, name: str
) -> None:
    with server.client() as client:
        client.set(f"{name}:large", b"x" * 50_000_000)
    for _ in range(3):
        with Lock(name, using=url, read=[("GET", f"{name}:large")]) as hold:
            assert hold.read is not None
        assert not breaker_at(url).is_open


def test_wait_none_waits_for_the_return(server: EmbeddedServer, url: str, lock: Lock) -> None:
    with stopped(server):
        open_it(lock, url)
        waiter = Threads().start(lock.acquire, wait=None)
        time.sleep(2 * TIMEOUT)
        assert not waiter.done()
    served(Threads(), waiter)


def test_a_waiter_in_line_stays(server: EmbeddedServer, url: str, name: str) -> None:
    lock, other = Lock(name, using=url, lease=60), Lock(f"{name}:other", using=url)
    hold = held(Threads(), lock)
    with server.client() as client:
        waiter = in_line(Threads(), lock, Observer(client), wait=60)
    with stopped(server):
        open_it(other, url)
        assert not waiter.done()
    until(lambda: works(other))
    hold.release()
    served(Threads(), waiter)


def test_blocks_that_proceed_lock_again_within_a_second(
    server: EmbeddedServer, url: str, name: str
) -> None:
    numbers = itertools.count()

    def is_guarded() -> bool:
        # Another lock each time: a question that is lost may be granted when the server goes on.
        number = next(numbers)
        with Lock(f"{name}:{number}", using=url, on_unavailable="proceed", wait=0) as hold:
            return not hold.is_unguarded

    assert is_guarded()
    with stopped(server):
        until(lambda: not is_guarded() and breaker_at(url).is_open)
        time.sleep(4 * TIMEOUT)  # pauses between probes would have grown
    began = time.monotonic()
    until(is_guarded)
    assert time.monotonic() - began < 1.5  # one, and room for a busy machine


def test_for_blocks_that_proceed_the_server_is_probed_twice_a_second_and_no_more(
    server: EmbeddedServer, name: str
) -> None:
    with Proxy(server.url) as proxy:
        url = f"{proxy.url}?socket_timeout={TIMEOUT}"
        lock = Lock(name, using=url, on_unavailable="proceed")
        server.kill()

        def proceeds() -> bool:
            with lock as hold:
                return hold.is_unguarded and breaker_at(url).is_open

        until(proceeds)
        before = proxy.taken
        time.sleep(2)
        assert proxy.taken - before <= 6


def test_a_task_fails_at_once_too_and_waits_without_blocking_its_loop(
    server: EmbeddedServer, url: str, lock: Lock, tasks: Tasks
) -> None:
    async def take() -> float:
        began = time.monotonic()
        with pytest.raises(LockBackendError):
            await lock.aacquire(wait=0)
        return time.monotonic() - began

    async def ask() -> list[float]:
        async with lock:
            pass
        with stopped(server):
            while not breaker_at(url).is_open:
                await take()
            return [await take() for _ in range(3)]

    assert all(took < AT_ONCE for took in tasks.run(ask()))


def test_holds_are_renewed_as_soon_as_the_server_is_back(
    server: EmbeddedServer, url: str, name: str
) -> None:
    """Renewal asks also while the breaker is open: a lease must not wait for the next probe."""
    with Lock(name, using=url, lease=6) as hold:
        with stopped(server):
            open_it(Lock(f"{name}:other", using=url), url)
            time.sleep(1)
        time.sleep(6)
        assert not hold.is_lost


def test_a_release_comes_as_soon_as_the_server_is_back(
    server: EmbeddedServer, url: str, name: str
) -> None:
    """The background asks with an open breaker, too: the lock must not wait for the next probe."""
    lock = Lock(name, using=url, lease=60)
    with override_settings(REDIS_LOCKS={"CONNECTION": url, "RELEASE_TIMEOUT": TIMEOUT}):
        hold = granted(lock.acquire())
        with stopped(server):
            open_it(Lock(f"{name}:other", using=url), url)
            with suppress(LockBackendError):
                hold.release()
            time.sleep(5)  # from now on pauses between probes are longer than 2 s
        began = time.monotonic()
        with server.client() as client:
            until(lambda: holder(client, keys_of(name).lock) is None)
        assert time.monotonic() - began < 1.5  # half a second, and room for a busy machine


def test_an_error_in_the_thread_that_probes_does_not_keep_the_next_outage_from_ending(
    server: EmbeddedServer, url: str, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        if getattr(record, "lock_event", "") == "back":
            raise RuntimeError("of the user's own filter")
        return True

    monkeypatch.setattr(logging.getLogger("redis_locks"), "filters", [refuse])
    for _ in range(2):
        with stopped(server):
            open_it(lock, url)
        until(lambda: breaker_at(url).state is breaker.BreakerState.CLOSED)
        monkeypatch.undo()
    assert works(lock)


def test_a_child_has_a_probe_of_its_own(server: EmbeddedServer, url: str, lock: Lock) -> None:
    with stopped(server):
        open_it(lock, url)
        assert "(True, True)" == in_a_child(lambda: (fails(lock, 5) < AT_ONCE, is_probing(url)))
    until(lambda: works(lock))


def test_the_log_has_a_line_when_it_is_lost_and_one_when_it_is_back(
    server: EmbeddedServer, url: str, lock: Lock, caplog: pytest.LogCaptureFixture
) -> None:
    with stopped(server):
        open_it(lock, url)
        for _ in range(30):
            fails(lock)

    def told(kind: str) -> list[logging.LogRecord]:
        return [record for record in caplog.records if getattr(record, "lock_event", "") == kind]

    until(lambda: told("back"))
    lost, back = told("away"), told("back")
    assert [logging.WARNING] * 2 == [record.levelno for record in (*lost, *back)]
    assert server.url in lost[0].getMessage()
    failed = int(back[0].getMessage().rpartition(" calls failed")[0].rpartition(" ")[2])
    assert failed >= 31
    assert 2 == len([record for record in caplog.records if record.levelno >= logging.WARNING])
