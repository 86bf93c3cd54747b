"""How many connections a process has: those in use, or in use less than a minute ago.

Never more than MAX_CONNECTIONS.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
import redis
from django.conf import settings as configured
from django.core.exceptions import ImproperlyConfigured

from redis_locks import Hold, Lock, LockBackendError, lock_timeout, optimistic
from redis_locks.connections.backends import backend_for
from redis_locks.drivers import blocking, idle_connections
from redis_locks.protocol import renewal
from redis_locks.signals import LockEvent, lock_contended
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer, Threads, held, until

CROWD = 40


@pytest.fixture
def observer(private_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with private_server.client() as client:
        yield client


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is idle for long after half a second."""
    monkeypatch.setattr(blocking, "reaper", idle_connections.Reaper())
    monkeypatch.setattr(idle_connections, "IDLE", 0.5)
    monkeypatch.setattr(renewal.Registry, "IDLE", 0.25)


def open_to(observer: redis.Redis) -> int:
    """How many connections others have."""
    return len(observer.client_list()) - 1


def that_ask(observer: redis.Redis) -> int:
    """How many of these do more than listen for the ends of holds."""
    listening = [each for each in observer.client_list() if each["cmd"] == "subscribe"]
    return open_to(observer) - len(listening)


def ever_opened_to(observer: redis.Redis) -> int:
    """How many connections others have ever opened."""
    return int(observer.info("stats")["total_connections_received"]) - 1


@pytest.fixture
def use(private_server: EmbeddedServer, settings: object) -> Callable[..., None]:
    """Sets MAX_CONNECTIONS, and names the server as the default one."""

    def choose(**options: object) -> None:
        settings.REDIS_LOCKS = {"CONNECTION": private_server.url, "STATISTICS": False} | options  # type: ignore[attr-defined]

    choose()
    return choose


def stall_and_release(observer: redis.Redis, holds: list[Hold], milliseconds: int) -> None:
    """Release all holds at once while the server stands still."""
    observer.client_pause(milliseconds, all=True)
    with ThreadPoolExecutor(len(holds)) as pool:
        for released in [pool.submit(hold.release) for hold in holds]:
            released.result(PATIENCE)


@pytest.mark.usefixtures("brief")
def test_after_a_stall_the_connections_shrink_to_those_that_are_used_and_then_to_none(
    use: Callable[..., None], observer: redis.Redis, name: str
) -> None:
    use(MAX_CONNECTIONS=400)
    holds = [held(Threads(), Lock(f"{name}:{number}", lease=PATIENCE)) for number in range(CROWD)]
    stall_and_release(observer, holds, 500)
    assert open_to(observer) > CROWD / 2

    def few_are_open() -> bool:
        with Lock(name):
            return open_to(observer) <= 3

    until(few_are_open)
    until(lambda: open_to(observer) == 0)
    with Lock(name):  # and it connects anew
        assert open_to(observer) > 0


def test_threads_never_open_more_connections_than_the_setting_allows(
    use: Callable[..., None], observer: redis.Redis, name: str
) -> None:
    use(MAX_CONNECTIONS=10)
    locks = [
        Lock(f"{name}:{number}", lease=PATIENCE, wait=PATIENCE, read=[("GET", name)])
        for number in range(CROWD)
    ]
    holds = [held(Threads(), lock) for lock in locks]
    stall_and_release(observer, holds, 500)
    observer.client_pause(500, all=True)
    with ThreadPoolExecutor(CROWD) as pool:
        holds = [hold for hold in pool.map(Lock.acquire, locks) if hold is not None]
    stall_and_release(observer, holds, 10)
    assert CROWD == len(holds)
    assert ever_opened_to(observer) <= 10


def test_receivers_that_are_told_of_contention_have_connections_to_lock_with(
    use: Callable[..., None], observer: redis.Redis, name: str
) -> None:
    """However many threads wait: who tells a receiver has none of those that it needs."""
    use(MAX_CONNECTIONS=10)
    lock = Lock(name, lease=PATIENCE, wait=PATIENCE)
    hold = held(Threads(), lock)
    together = threading.Barrier(CROWD)
    failures: list[LockBackendError] = []

    def note(event: LockEvent, **_: object) -> None:
        if event.names != (name,):
            return
        try:
            together.wait(PATIENCE)
            with Lock(f"{name}:receivers", wait=PATIENCE):
                pass
        except LockBackendError as error:
            failures.append(error)

    def work() -> None:
        with lock:
            pass

    lock_contended.connect(note)
    try:
        workers = [Threads().start(work) for _ in range(CROWD)]
        Observer(observer).until_waiters(name, CROWD)
        hold.release()
        for worker in workers:
            worker.result(PATIENCE)
    finally:
        lock_contended.disconnect(note)
    assert [] == failures


def test_who_finds_all_connections_in_use_is_told_of_the_setting(
    use: Callable[..., None], private_server: EmbeddedServer, name: str
) -> None:
    use(MAX_CONNECTIONS=10, CONNECTION=f"{private_server.url}?socket_timeout=0.1")
    driver = backend_for(None).driver
    links = [blocking.run_blocking(driver.checkout()) for _ in range(4)]
    with pytest.raises(
        blocking.LinkBroken, match=r"in use for 0\.\d s.*MAX_CONNECTIONS'\] allows 10"
    ):
        blocking.run_blocking(driver.checkout())
    driver.checkin(links.pop())
    with Lock(name):
        pass
    for link in links:
        driver.checkin(link)


def test_so_is_who_has_less_time_than_a_reply_may_take(use: Callable[..., None], name: str) -> None:
    use(MAX_CONNECTIONS=10, REPLY_TIMEOUT=PATIENCE)
    driver = backend_for(None).driver
    links = [blocking.run_blocking(driver.checkout()) for _ in range(4)]
    with (
        lock_timeout(0),
        pytest.raises(LockBackendError, match=r"in use.*MAX_CONNECTIONS'\] allows 10"),
    ):
        Lock(name).acquire()
    for link in links:
        driver.checkin(link)


def test_the_oldest_is_closed_and_the_one_in_use_stays(
    use: Callable[..., None], observer: redis.Redis
) -> None:
    use()
    driver = backend_for(None).driver
    assert isinstance(driver, blocking.BlockingDriver)
    links = [blocking.run_blocking(driver.checkout()) for _ in range(3)]
    for link in links:
        driver.checkin(link)
    for _ in range(idle_connections.LOOKS + 1):
        used = driver.take()
        assert used is links[-1]
        driver.close_idle()
        driver.checkin(used)
    assert [True, True, False] == [link.broken for link in links]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("number", [1, 5])
def test_connections_of_an_event_loop_s_transactions_shrink_too(
    use: Callable[..., None],
    private_server: EmbeddedServer,
    observer: redis.Redis,
    name: str,
    number: int,
) -> None:
    use()
    together = asyncio.Barrier(number)

    async def transaction(pipe: object) -> None:
        await together.wait()

    async def main() -> None:
        await asyncio.gather(
            *(
                optimistic.arun(transaction, f"{name}:{each}", using=private_server.url)
                for each in range(number)
            )
        )
        assert number == open_to(observer)
        await asyncio.to_thread(until, lambda: open_to(observer) == 0)

    asyncio.run(main())


def alone(name: str) -> ExitStack:
    with Lock(name):
        return ExitStack()


def reading(name: str) -> ExitStack:
    with Lock(name, read=[("GET", name)]):
        return ExitStack()


def held_for_long(name: str) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(Lock(name))
    until(lambda: backend_for(None).renewer._listener_thread.is_open)  # type: ignore[attr-defined]
    return stack


def in_transactions(name: str) -> ExitStack:
    """Five threads, each in a transaction."""
    stack, barrier, over = ExitStack(), threading.Barrier(6), threading.Event()

    def transaction(pipe: object) -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(PATIENCE)
        over.wait(PATIENCE)

    threads = [
        threading.Thread(
            target=optimistic.run,
            args=(transaction, f"{name}:{each}"),
            kwargs={"using": configured.REDIS_LOCKS["CONNECTION"]},
        )
        for each in range(5)
    ]
    for thread in threads:
        thread.start()
        stack.callback(thread.join)
    barrier.wait(PATIENCE)
    stack.callback(over.set)
    return stack


@pytest.mark.parametrize(
    ("way", "connections"),
    [(alone, 1), (reading, 2), (held_for_long, 2), (in_transactions, 5)],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_what_each_kind_of_use_takes(
    use: Callable[..., None],
    observer: redis.Redis,
    name: str,
    way: Callable[[str], ExitStack],
    connections: int,
) -> None:
    """As the table in docs/howto/sizing.md has it."""
    use()
    with way(name):
        assert connections == open_to(observer)


def test_what_an_event_loop_takes(
    use: Callable[..., None], observer: redis.Redis, name: str
) -> None:
    use()

    async def work(number: int) -> None:
        async with Lock(f"{name}:{number}"):
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(CROWD)))
        assert 1 == that_ask(observer)
        async with Lock(name, read=[("GET", name)]):
            assert 2 == that_ask(observer)

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [9, 10_001, "64", None])
def test_a_setting_that_is_wrong_is_refused(
    use: Callable[..., None], name: str, wrong: object
) -> None:
    use(MAX_CONNECTIONS=wrong)
    with pytest.raises(ImproperlyConfigured, match=r"MAX_CONNECTIONS"):
        Lock(name).acquire()
