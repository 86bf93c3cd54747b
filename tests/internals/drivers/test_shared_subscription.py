"""Many threads of one process wait with few connections."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
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


def cycle(lock: Lock) -> str:
    with lock as hold:
        return hold.token


class Crowd:
    """Threads that want one lock of a server, which another one has."""

    def __init__(self, server: EmbeddedServer, client: redis.Redis, name: str) -> None:
        self.server, self.client, self.name = server, client, name
        self.side = Observer(client)
        self.workers: list[Future[str]] = []

    def start(self, count: int, work: Callable[[Lock], str] = cycle) -> list[Future[str]]:
        """Let so many do something with the lock, all at once."""
        lock = Lock(self.name, using=self.server.url, wait=PATIENCE, lease=PATIENCE)
        together = threading.Barrier(count)

        def run() -> str:
            together.wait(PATIENCE)
            return work(lock)

        return [Threads().start(run) for _ in range(count)]

    def wait(self, count: int, work: Callable[[Lock], str] = cycle) -> None:
        """Let so many wait for the lock."""
        self._hold = held(Threads(), Lock(self.name, using=self.server.url, lease=PATIENCE))
        self.workers = self.start(count, work)
        self.side.until_waiters(self.name, count)

    def release(self) -> list[str]:
        """Release the lock; return what all came to that waited for it."""
        self._hold.release()
        return [worker.result(PATIENCE) for worker in self.workers]


@pytest.fixture
def crowd(private_server: EmbeddedServer, name: str) -> Iterator[Crowd]:
    """Afterwards nothing is left of the lock."""
    with private_server.client() as client:
        made = Crowd(private_server, client, name)
        yield made
        assert set() == made.side.left_of(name)


@pytest.mark.parametrize("count", [MANY, pytest.param(1000, marks=pytest.mark.long)])
def test_many_threads_wait_in_order_with_a_handful_of_connections(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    # None is opened because the machine is slow.
    monkeypatch.setattr(blocking, "GROWTH", PATIENCE)
    served: list[str] = []

    def work(lock: Lock) -> str:
        with lock as hold:
            served.append(hold.token)
        return hold.token

    crowd.wait(count, work)
    assert len(clients(crowd.client)) <= HANDFUL
    queue = stored.line(crowd.client, keys_of(crowd.name).lock)
    crowd.release()
    assert [token.decode() for token in queue] == served
    assert len(clients(crowd.client)) <= HANDFUL + count // 10


def test_all_who_share_a_connection_ask_again_when_it_breaks(crowd: Crowd) -> None:
    crowd.wait(ALONE * 4)
    before = shared(crowd.server)
    assert before is not None
    for each in listening(crowd.client):
        crowd.client.client_kill_filter(_id=each)
    # Who is handed the lock now, and listens nowhere, would be left out.
    assert ALONE * 4 == len(set(crowd.release()))
    assert shared(crowd.server) not in (before, None)


def test_a_waiter_is_told_over_the_shared_connection_that_its_wait_is_cancelled(
    crowd: Crowd,
) -> None:
    crowd.wait(ALONE * 3)
    for waiter in inspection.parties(using=crowd.server.url).waiters:
        assert inspection.cancel(waiter, using=crowd.server.url)
    for worker in crowd.workers:
        with pytest.raises(LockError, match="cancelled by an operator"):
            worker.result(PATIENCE)
    crowd.workers.clear()
    crowd.release()


def test_a_shared_connection_that_nobody_needs_is_closed_and_opened_again(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_subscription, "SILENCE", 0.5)
    for _ in range(2):
        crowd.wait(ALONE * 3)
        until(lambda: shared(crowd.server) is not None)
        crowd.release()
        until(lambda: shared(crowd.server) is None)
        until(lambda: len(listening(crowd.client)) <= 1)  # that of renewal


def test_a_shared_connection_that_fell_silent_is_replaced(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_subscription, "SILENCE", 0.5)
    crowd.wait(ALONE * 3)
    before = shared(crowd.server)
    crowd.client.client_pause(timeout=2000, all=True)
    until(lambda: shared(crowd.server) not in (before, None))
    crowd.release()


def test_a_forked_child_shares_nothing_with_the_threads_of_its_parent(crowd: Crowd) -> None:
    crowd.wait(ALONE * 3)

    def others() -> int:
        return len({each.result(PATIENCE) for each in crowd.start(ALONE * 3)})

    child = Threads().start(in_a_child, others)
    crowd.side.until_waiters(crowd.name, ALONE * 6)
    crowd.release()
    assert str(ALONE * 3) == child.result(PATIENCE)


def test_a_place_that_a_member_could_not_give_up_is_not_granted_for_nobody(crowd: Crowd) -> None:
    subscription = backend_for(crowd.server.url).driver._shared_subscription  # type: ignore[attr-defined]
    crowd.wait(ALONE + 2)
    until(lambda: len(subscription._by_token) == 2)
    before = subscription.channel
    heard = crowd.client.pubsub_numsub
    until(lambda: heard(before) == [(before.encode(), 1)])
    next(iter(subscription._members)).disconnect()
    until(lambda: subscription.channel != before)
    until(lambda: heard(before) == [(before.encode(), 0)])
    assert ALONE + 2 == len(set(crowd.release()))


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
    """The listener thread must survive it: its connection broke; nobody else reconnects."""
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
