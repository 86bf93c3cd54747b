"""Many threads of one process wait with few connections."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any

import pytest
import redis

from redis_locks import Lock, LockError, inspection
from redis_locks.connections.backends import backend_for
from redis_locks.drivers import blocking, shared_subscription
from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import ALONE, FEW
from redis_locks.testing.server import EmbeddedServer
from tests.support import stored
from tests.support.children import in_a_child
from tests.support.world import PATIENCE, Observer, Threads, held, keys_of, until

NO_POOL: Any = None
MANY = 80
HANDFUL = 2 * FEW
"""Pool, the shared connection and that of renewal; the pool grows a little on a busy machine."""


def clients(client: redis.Redis) -> list[dict[str, str]]:
    return [each for each in client.client_list() if each["id"] != str(client.client_id())]


def listening(client: redis.Redis) -> set[str]:
    """The ids of the connections that only listen."""
    return {each["id"] for each in clients(client) if each["cmd"] in {"subscribe", "ping"}}


def shared(server: EmbeddedServer) -> object:
    """The connection on which this process's threads hear together, or None."""
    return backend_for(server.url).driver._shared_subscription._listener_thread._link  # type: ignore[attr-defined]


def threads_of(
    server: EmbeddedServer, name: str, count: int, work: Callable[[Lock], str]
) -> list[Future[str]]:
    """Let threads do something with one lock, all at once."""
    lock = Lock(name, using=server.url, wait=PATIENCE, lease=PATIENCE)
    start = threading.Barrier(count)

    def run() -> str:
        start.wait(PATIENCE)
        return work(lock)

    return [Threads().start(run) for _ in range(count)]


@pytest.mark.parametrize("count", [MANY, pytest.param(1000, marks=pytest.mark.long)])
def test_many_threads_wait_in_order_with_a_handful_of_connections(
    name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    # None is opened because the machine is slow.
    monkeypatch.setattr(blocking, "GROWTH", PATIENCE)
    served: list[str] = []

    def work(lock: Lock) -> str:
        with lock as hold:
            served.append(hold.token)
        return hold.token

    hold = held(Threads(), Lock(name, using=private_server.url))
    with private_server.client() as client:
        server_side = Observer(client)
        workers = threads_of(private_server, name, count, work)
        server_side.until_waiters(name, count)
        assert len(clients(client)) <= HANDFUL
        queue = [token.decode() for token in stored.line(client, keys_of(name).lock)]
        hold.release()
        for worker in workers:
            worker.result(PATIENCE)
        assert queue == served
        assert set() == server_side.left_of(name)
        assert len(clients(client)) <= HANDFUL + count // 10


def test_all_who_share_a_connection_ask_again_when_it_breaks(
    name: str, private_server: EmbeddedServer
) -> None:
    hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
    done = threading.Event()

    def work(lock: Lock) -> str:
        with lock as hold:
            done.set()
        return hold.token

    with private_server.client() as client:
        server_side = Observer(client)
        workers = threads_of(private_server, name, ALONE * 4, work)
        server_side.until_waiters(name, ALONE * 4)
        before = shared(private_server)
        assert before is not None
        for each in listening(client):
            client.client_kill_filter(_id=each)
        # Who is handed the lock now, and listens nowhere, would be left out.
        hold.release()
        until(done.is_set)
        tokens = [worker.result(PATIENCE) for worker in workers]
        assert ALONE * 4 == len(set(tokens))
        assert shared(private_server) not in (before, None)
        assert set() == server_side.left_of(name)


def test_a_waiter_is_told_over_the_shared_connection_that_its_wait_is_cancelled(
    name: str, private_server: EmbeddedServer
) -> None:
    hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
    with private_server.client() as client:
        workers = threads_of(private_server, name, ALONE * 3, lambda lock: str(lock.acquire()))
        Observer(client).until_waiters(name, ALONE * 3)
        info = inspection.lock(name, using=private_server.url)
        assert info is not None
        for waiter in info.waiters:
            assert inspection.cancel(waiter, using=private_server.url)
        for worker in workers:
            with pytest.raises(LockError, match="cancelled by an operator"):
                worker.result(PATIENCE)
        hold.release()
        assert set() == Observer(client).left_of(name)


def test_a_shared_connection_that_nobody_needs_is_closed_and_opened_again(
    name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_subscription, "SILENCE", 0.5)
    with private_server.client() as client:
        for _ in range(2):
            hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
            workers = threads_of(private_server, name, ALONE * 3, _cycle)
            Observer(client).until_waiters(name, ALONE * 3)
            until(lambda: shared(private_server) is not None)
            hold.release()
            for worker in workers:
                worker.result(PATIENCE)
            until(lambda: shared(private_server) is None)
            until(lambda: len(listening(client)) <= 1)  # that of renewal


def test_a_shared_connection_that_fell_silent_is_replaced(
    name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_subscription, "SILENCE", 0.5)
    hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
    with private_server.client() as client:
        workers = threads_of(private_server, name, ALONE * 3, _cycle)
        Observer(client).until_waiters(name, ALONE * 3)
        before = shared(private_server)
        client.client_pause(timeout=2000, all=True)
        until(lambda: shared(private_server) not in (before, None))
        hold.release()
        for worker in workers:
            worker.result(PATIENCE)
        assert set() == Observer(client).left_of(name)


def test_a_forked_child_shares_nothing_with_the_threads_of_its_parent(
    name: str, private_server: EmbeddedServer
) -> None:
    hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
    with private_server.client() as client:
        workers = threads_of(private_server, name, ALONE * 3, _cycle)
        Observer(client).until_waiters(name, ALONE * 3)

        def others() -> int:
            cycles = threads_of(private_server, name, ALONE * 3, _cycle)
            return len({each.result(PATIENCE) for each in cycles})

        child = Threads().start(in_a_child, others)
        Observer(client).until_waiters(name, ALONE * 6)
        hold.release()
        for worker in workers:
            worker.result(PATIENCE)
        assert str(ALONE * 3) == child.result(PATIENCE)
        assert set() == Observer(client).left_of(name)


def _cycle(lock: Lock) -> str:
    with lock as hold:
        return hold.token


def test_a_place_that_a_member_could_not_give_up_is_not_granted_for_nobody(
    name: str, private_server: EmbeddedServer
) -> None:
    subscription = backend_for(private_server.url).driver._shared_subscription  # type: ignore[attr-defined]
    hold = held(Threads(), Lock(name, using=private_server.url, lease=PATIENCE))
    waiting = threads_of(private_server, name, ALONE + 2, _cycle)
    with private_server.client() as client:
        until(lambda: len(stored.line(client, keys_of(name).lock)) == ALONE + 2)
        until(lambda: len(subscription._by_token) == 2)
        before = subscription.channel
        until(lambda: client.pubsub_numsub(before) == [(before.encode(), 1)])
        next(iter(subscription._members)).disconnect()
        until(lambda: subscription.channel != before)
        until(lambda: client.pubsub_numsub(before) == [(before.encode(), 0)])
    hold.release()
    assert ALONE + 2 == len({each.result(PATIENCE) for each in waiting})


class Quiet:
    """A connection on which nothing is said until it is closed."""

    address = ("nowhere", 0)
    """Other tests of the process may ask all that listen where they do."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def deliver_messages(self, *_: object) -> None:
        self._closed.wait(PATIENCE)
        raise LinkBroken("closed")

    def close(self) -> None:
        self._closed.set()


def test_only_one_thread_opens_the_connection_and_a_handler_of_its_signals_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_subscription, "BUSY", PATIENCE)
    opened: list[Quiet] = []
    meanwhile: list[object] = []
    others: list[Future[object]] = []

    def connect(channel: str) -> Quiet:
        others.extend(Threads().start(subscription.join, NO_POOL, str(i)) for i in range(3))
        meanwhile.append(subscription.join(NO_POOL, "handler"))
        opened.append(Quiet())
        return opened[-1]

    subscription = shared_subscription.SharedSubscription(str, connect)  # type: ignore[arg-type]
    assert subscription.join(NO_POOL, "first") is not None
    assert [None] == meanwhile
    assert all(each.result(PATIENCE) is not None for each in others)
    assert 1 == len(opened)
    opened[0].close()


def test_others_may_join_at_any_step_while_all_are_woken() -> None:
    """The listener thread must survive it: its connection broke, and nobody else would connect again."""
    opened: list[Quiet] = []

    def connect(channel: str) -> Quiet:
        opened.append(Quiet())
        return opened[-1]

    subscription = shared_subscription.SharedSubscription(str, connect)  # type: ignore[arg-type]
    members = [subscription.join(NO_POOL, str(number)) for number in range(2)]

    def join(frame: FrameType, event: str, argument: object) -> Any:
        members.append(subscription.join(NO_POOL, str(len(members))))
        return join

    before = sys.gettrace()
    sys.settrace(join)
    try:
        subscription._wake_all()
    finally:
        sys.settrace(before)
    assert len(members) > 2
    assert all(members)
    opened[0].close()
