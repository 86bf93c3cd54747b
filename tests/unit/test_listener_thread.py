"""The thread that listens: there is one, whoever opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic

import pytest

from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.listener_thread import ListenerThread, Pin, connect_all_again
from tests.support.interrupts import sweep
from tests.support.world import PATIENCE, until


class Silence:
    """A link on which nothing is heard."""

    address = ("here", 6379)

    def __init__(self) -> None:
        self.closed = threading.Event()

    def deliver_messages(
        self, receiver: Callable[[str], None], silence: float | None = None
    ) -> None:
        assert self.closed.wait(PATIENCE)
        raise LinkBroken

    def close(self) -> None:
        self.closed.set()

    @property
    def is_open(self) -> bool:
        return not self.closed.is_set()


@pytest.fixture
def links() -> list[Silence]:
    return []


def check_and_close(thread: ListenerThread, links: list[Silence]) -> None:
    """Check that it listens once, and no more when it is closed."""
    assert thread.is_open
    assert [True] == [link.is_open for link in links if link.is_open]
    thread.close()
    assert not any(link.is_open for link in links)


def test_two_threads_that_open_it_at_once_open_it_once(links: list[Silence]) -> None:
    both, connecting = threading.Barrier(2), threading.Barrier(2)

    def connect() -> Silence:
        with suppress(threading.BrokenBarrierError):
            connecting.wait(0.1)  # for the other thread, should that connect as well
        links.append(Silence())
        return links[-1]

    thread = ListenerThread(connect, print, print)

    def open_it() -> bool:
        both.wait(PATIENCE)
        return thread.try_to_open()

    with ThreadPoolExecutor(2) as pool:
        assert [True, True] == [each.result() for each in [pool.submit(open_it) for _ in "ab"]]
    assert 1 == len(links)
    check_and_close(thread, links)


def test_it_stays_open_as_long_as_a_block_needs_it(links: list[Silence]) -> None:
    def connect() -> Silence:
        links.append(Silence())
        return links[-1]

    thread = ListenerThread(connect, print, print)
    thread.open()
    with Pin(thread):
        thread.close()
        assert thread.is_open
    check_and_close(thread, links)


def test_opened_in_the_middle_of_being_opened_it_listens_once(links: list[Silence]) -> None:
    def connect() -> Silence:
        link = Silence()
        links.append(link)
        if link is links[0]:
            thread.open()  # as a signal's handler may, that acquires a lock
        return link

    thread = ListenerThread(connect, print, print)
    thread.open()
    check_and_close(thread, links)


def test_it_goes_on_after_an_error_that_nobody_foresaw(links: list[Silence]) -> None:
    outcomes = [True, False, False, True]
    connected = threading.Event()

    def connect() -> Silence:
        if not outcomes.pop(0):
            msg = "the credential provider has no password"
            raise ValueError(msg)
        links.append(Silence())
        return links[-1]

    thread = ListenerThread(connect, print, connected.set)
    thread.open()
    links[0].close()
    assert connected.wait(PATIENCE)
    check_and_close(thread, links)


def test_an_error_that_nobody_foresaw_puts_the_next_try_off(links: list[Silence]) -> None:
    def connect() -> Silence:
        msg = "the credential provider has no password"
        raise ValueError(msg)

    thread = ListenerThread(connect, print, print)
    assert not thread.try_to_open()
    assert thread.retry_at > monotonic()
    assert not thread.is_open


def test_closed_and_opened_again_while_it_connects_anew_it_listens_once(
    links: list[Silence],
) -> None:
    connecting, go_on = threading.Event(), threading.Event()

    def connect() -> Silence:
        link = Silence()
        links.append(link)
        if len(links) == 2:
            connecting.set()
            assert go_on.wait(PATIENCE)
        return link

    thread = ListenerThread(connect, print, print)
    thread.open()
    links[0].close()
    assert connecting.wait(PATIENCE)
    thread.close()
    thread.open()
    go_on.set()
    assert links[1].closed.wait(PATIENCE)
    check_and_close(thread, links)


def test_only_a_connection_to_the_server_that_is_left_is_made_anew(links: list[Silence]) -> None:
    def connect() -> Silence:
        links.append(Silence())
        return links[-1]

    thread = ListenerThread(connect, print, print)
    thread.open()
    connect_all_again(("elsewhere", 6379))
    assert [True] == [link.is_open for link in links]
    connect_all_again(Silence.address)
    until(lambda: [False, True] == [link.is_open for link in links])
    connect_all_again(("elsewhere", 6379))
    assert [False, True] == [link.is_open for link in links]
    check_and_close(thread, links)


def test_interrupted_while_it_opens_it_is_open_or_can_be_opened(links: list[Silence]) -> None:
    def connect() -> Silence:
        links.append(Silence())
        return links[-1]

    others = listening()  # of other tests
    threads: list[ListenerThread] = []

    def run() -> None:
        threads.append(ListenerThread(connect, print, print))
        threads[-1].open()

    def check(where: str) -> None:
        for thread in threads:
            thread.open()
            until(lambda: 1 == len(listening() - others))
            assert thread.is_open, where
            assert links[-1].is_open, where
            thread.close()
            until(lambda: not listening() - others)
            assert not links[-1].is_open, where
        threads.clear()

    sweep(run, 1, check)


def listening() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "redis_locks-listener"}
