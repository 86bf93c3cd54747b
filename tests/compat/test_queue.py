"""What ours does beyond redis-py: a queue, a release that is heard, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import LockError

from tests.compat.conftest import Observer
from tests.compat.worlds import CompatAsync, CompatBlocking, World
from tests.support.compat import POLL, poll_after
from tests.support.connections import subscribers
from tests.support.world import PATIENCE, Threads, until

GIVEN = "given"


@pytest.fixture
def never_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters that only listen: what they notice, they were told."""
    poll_after(monkeypatch, PATIENCE)


@pytest.mark.ci
@pytest.mark.usefixtures("never_asks")
def test_a_waiter_behind_a_crowd_of_dead_ones_gets_the_lock(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    """It is told to ask again and again, and drops some of them each time."""
    holder = ours.held(name)
    dead = [f"dead{number}" for number in range(5_000)]
    client.zadd(f"{name}:redis_locks:line", {each: at for at, each in enumerate(dead)})
    client.hset(f"{name}:redis_locks:claims", mapping={each: f"nobody {each}" for each in dead})
    waiter = ours.lock(name).start("acquire")
    server_side.until_heard(len(dead) + 1)
    before = server_side.calls()
    holder.release()
    assert waiter.result(PATIENCE / 2) is True
    assert len(dead) / 200 <= server_side.calls() - before <= len(dead) / 150
    assert 0 == server_side.waiters()


def test_waiters_are_served_in_the_order_in_which_they_came(
    ours: World, server_side: Observer, name: str
) -> None:
    order: list[int] = []
    holder = ours.held(name)
    waiters = []
    for number in range(6):
        lock = ours.lock(name)
        waiters.append(ours.start(_in_turn(lock.lock, order, number)))
        server_side.until_heard(number + 1)
    holder.release()
    for each in waiters:
        each.result(PATIENCE)
    assert list(range(6)) == order
    assert set() == server_side.keys()


def _in_turn(lock: Any, order: list[int], number: int) -> Any:
    """Return a function or coroutine function that takes its turn."""
    if hasattr(lock, "__enter__"):

        def take() -> None:
            with lock:
                order.append(number)

        return take

    async def atake() -> None:
        async with lock:
            order.append(number)

    return atake


def test_a_newcomer_does_not_overtake_the_queue(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    client.set(name, "theirs")
    waiter = ours.lock(name, thread_local=False)
    waiting_for_it = server_side.in_line(waiter)
    client.delete(name)  # nobody tells
    assert ours.lock(name).acquire(blocking=False) is False
    assert waiting_for_it.result(PATIENCE) is True
    assert waiter.owned()


def test_all_waiting_tasks_of_a_loop_listen_on_one_connection(
    make_world: Callable[..., World], client: redis.Redis, server_side: Observer, name: str
) -> None:
    world = make_world(CompatAsync)
    shared = world.client()
    holder = world.held(name, client=shared)
    before = subscribers(client)
    waiters = [world.lock(name, client=shared).lock for _ in range(50)]
    turns = [world.start(_in_turn(lock, [], 0)) for lock in waiters]
    server_side.until_heard(50)
    assert 1 == len(subscribers(client) - before)
    holder.release()
    for turn in turns:
        turn.result(PATIENCE)
    assert set() == server_side.keys()


@pytest.mark.ci
def test_a_waiter_asks_about_ten_times_a_second_and_those_behind_it_less(
    ours: World, server_side: Observer, name: str
) -> None:
    ours.held(name)
    turns = [ours.lock(name, sleep=1).start("acquire", blocking_timeout=3) for _ in range(10)]
    server_side.until_heard(10)
    before, started = server_side.calls(), time.monotonic()
    with pytest.raises(TimeoutError):
        turns[0].result(1.0)
    rate = (server_side.calls() - before) / (time.monotonic() - started)
    # 11 for the first, 5.5 for the second, ...: 33; redis-py's would be 100.
    assert 5 < rate < 50
    for turn in turns:
        assert turn.result(PATIENCE) is False
    assert {name.encode()} == server_side.keys()


def test_after_a_release_nothing_is_sent_and_nothing_is_left(
    ours: World, server_side: Observer, name: str
) -> None:
    lock, second = ours.lock(name), ours.lock(name, thread_local=False)
    lock.acquire()
    turn = server_side.in_line(second)
    lock.release()
    assert turn.result(PATIENCE)
    second.release()
    before = server_side.calls()
    with pytest.raises(AssertionError):  # three polls' time
        until(lambda: before != server_side.calls(), within=3 * POLL)
    assert set() == server_side.keys()


def test_one_that_gives_up_leaves_the_queue(ours: World, server_side: Observer, name: str) -> None:
    holder, heir = ours.lock(name), ours.lock(name)
    holder.acquire()
    quitter = server_side.in_line(ours.lock(name), blocking_timeout=2)
    turn = server_side.in_line(heir, place=2)
    assert quitter.result(PATIENCE) is False
    assert 1 == server_side.waiters()
    holder.release()
    assert turn.result(PATIENCE) is True


def test_waiting_waiters_and_a_given_token_go_together(
    ours: World, server_side: Observer, client: redis.Redis, name: str
) -> None:
    holder = ours.held(name, token=GIVEN)
    waiter = server_side.in_line(ours.lock(name, timeout=30), token=GIVEN)
    with pytest.raises(TimeoutError):
        waiter.result(0.3)  # the holder's token is not taken for its own
    holder.release()
    assert waiter.result(PATIENCE) is True
    assert GIVEN.encode() == client.get(name)
    assert 20_000 < client.pttl(name) <= 30_000


@pytest.mark.parametrize("timeout", [None, 20])
def test_a_lock_that_was_handed_over_has_its_own_timeout(
    ours: World, server_side: Observer, client: redis.Redis, name: str, timeout: float | None
) -> None:
    holder = ours.held(name, timeout=5)
    turn = server_side.in_line(ours.lock(name, timeout=timeout))
    holder.release()
    assert turn.result(PATIENCE)
    assert (-1 == client.pttl(name)) if timeout is None else (15_000 < client.pttl(name) <= 20_000)


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.usefixtures("never_asks")
def test_waiters_hear_beside_any_client(
    ours: World, server_side: Observer, name: str, decode: bool, protocol: int
) -> None:
    shared = ours.client(decode_responses=decode, protocol=protocol)
    holder, waiter = (ours.lock(name, client=shared, thread_local=False) for _ in range(2))
    holder.acquire()
    turn = server_side.in_line(waiter)
    holder.release()
    assert turn.result(PATIENCE / 2) is True
    assert waiter.owned()
    waiter.release()
    assert set() == server_side.keys()


def test_the_client_s_socket_timeout_does_not_bound_the_wait(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    client.set(name, "theirs")
    shared = ours.client(socket_timeout=0.2)
    turns = []
    for number in range(4):
        turns.append(ours.lock(name, client=shared).start("acquire"))
        server_side.until_heard(number + 1)
    with pytest.raises(TimeoutError):
        turns[0].result(0.8)
    for turn in turns:
        client.delete(name)
        assert turn.result(PATIENCE) is True


def test_waiting_threads_leave_the_client_s_pool_to_others(
    redis_server: Any, name: str, server_side: Observer
) -> None:
    world = CompatBlocking(redis_server.url)
    pool = redis.BlockingConnectionPool.from_url(redis_server.url, max_connections=1, timeout=5)
    small = redis.Redis(connection_pool=pool)
    holder = world.held(name, client=small)
    order: list[int] = []
    turns = [
        world.start(_in_turn(world.lock(name, client=small).lock, order, number))
        for number in range(10)
    ]
    server_side.until_heard(10)
    assert small.ping()
    holder.release()
    for turn in turns:
        turn.result(PATIENCE)
    assert 10 == len(order)
    small.close()


def test_to_a_thread_that_did_not_acquire_it_the_lock_is_not_owned(
    make_world: Callable[..., World], name: str
) -> None:
    lock = make_world(CompatBlocking).lock(name)
    lock.acquire()
    elsewhere = Threads()
    assert elsewhere.start(lock.owned).result(PATIENCE) is False
    with pytest.raises(LockError, match=r"not owned|unlocked"):
        elsewhere.start(lock.release).result(PATIENCE)
    assert lock.owned()
