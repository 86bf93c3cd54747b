"""The connections of a process's threads go to those who want one in their turn."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf

import pytest

from redis_locks.connections.resolution import resolve
from redis_locks.drivers import blocking
from redis_locks.drivers.base import Link, run_blocking
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.resp import pack
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, until


@pytest.fixture
def driver(
    redis_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BlockingDriver]:
    """A driver that has as many connections as it may open at once: one."""
    monkeypatch.setattr(blocking, "FEW", 1)
    monkeypatch.setattr(blocking, "GROWTH", PATIENCE)
    endpoint = resolve(redis_server.url)
    assert isinstance(endpoint, Endpoint)
    made = BlockingDriver(endpoint, "redis_locks")
    yield made
    made.drop_idle()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def wanted(pool: ThreadPoolExecutor, driver: BlockingDriver) -> Future[Link]:
    """A connection that another thread wants, as soon as it stands in line for it."""
    count = len(driver._wanting)
    found = pool.submit(lambda: run_blocking(driver.checkout_for_asking()))
    until(lambda: len(driver._wanting) > count)
    return found


def test_who_gives_a_connection_back_does_not_take_it_again_before_those_who_want_one(
    driver: BlockingDriver, pool: ThreadPoolExecutor
) -> None:
    link = run_blocking(driver.checkout_for_asking())
    first = wanted(pool, driver)
    second = wanted(pool, driver)
    driver.checkin(link)
    assert not driver._idle
    assert first.result(PATIENCE) is link
    assert not second.done()
    driver.checkin(link)
    assert second.result(PATIENCE) is link
    driver.checkin(link)
    assert [link] == list(driver._idle)


def test_who_has_waited_for_long_opens_one_more_and_what_comes_back_then_is_kept(
    driver: BlockingDriver, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = run_blocking(driver.checkout_for_asking())
    monkeypatch.setattr(blocking, "GROWTH", 0.01)
    own = wanted(pool, driver).result(PATIENCE)
    assert own is not link
    driver.checkin(link)
    driver.checkin(own)
    assert {link, own} == set(driver._idle)


def test_who_has_waited_for_a_whole_timeout_opens_one_of_its_own(
    driver: BlockingDriver, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else opens some: a server that hangs gives none back."""
    link = run_blocking(driver.checkout_for_asking())
    monkeypatch.setattr(blocking, "GROWTH", 0.01)
    driver._grown_at = inf
    driver.reply_timeout = 0.1
    waiting = pool.submit(lambda: run_blocking(driver.checkout_for_asking()))
    try:
        own = waiting.result(PATIENCE)
    finally:
        driver.checkin(link)
    driver.checkin(own)
    assert {link, own} == set(driver._idle)


def test_a_thread_that_is_interrupted_gives_on_what_it_was_given(
    driver: BlockingDriver, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = run_blocking(driver.checkout_for_asking())

    async def interrupted(event: object, seconds: float) -> bool:
        driver.checkin(link)
        raise KeyboardInterrupt

    monkeypatch.setattr("redis_locks.drivers.wake_events.ThreadWakeEvent.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_blocking(driver.checkout_for_asking())
    assert ([link], []) == (list(driver._idle), list(driver._wanting))


def test_a_connection_that_a_waiting_thread_dropped_takes_no_place_of_those_that_wait_alone(
    driver: BlockingDriver,
) -> None:
    for _ in range(blocking.ALONE):
        link: Link | None = run_blocking(driver.checkout())
        assert isinstance(link, BlockingLink)
        assert driver.waits_on(link)
        link.close()
        link = None  # as an interrupt leaves it that came before it was given back
        gc.collect()
    driver.checkin(run_blocking(driver.checkout()))
    assert isinstance(run_blocking(driver.checkout("token")), BlockingLink)


def test_a_connection_with_a_reply_more_than_was_asked_for_is_not_given_out_again(
    driver: BlockingDriver,
) -> None:
    link = run_blocking(driver.checkout())
    assert isinstance(link, BlockingLink)
    both = pack(("ECHO", "mine")) + pack(("ECHO", "another's"))
    assert [b"mine"] == run_blocking(link.round_trip(both, 1))
    driver.checkin(link)
    other = run_blocking(driver.checkout())
    assert other is not link
    driver.checkin(other)
