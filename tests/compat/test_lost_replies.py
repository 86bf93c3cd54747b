"""What is left, and what is said, when replies get lost and links or scripts go."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
import redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks.testing.server import EmbeddedServer
from tests.compat.conftest import Observer
from tests.compat.worlds import World
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, until

TOKENS = pytest.mark.parametrize("token", [None, "given"])


def retrying(world: World, times: int) -> Any:
    """A client that repeats a command so often whose reply was lost; redis-py's default is 10."""
    retry = Retry if world.kind == "blocking" else AsyncRetry
    # redis-py 5 repeats nothing unless it is told after which errors.
    return world.client(retry=retry(NoBackoff(), times), retry_on_error=[redis.ConnectionError])


@pytest.fixture
def proxied(ours: World, proxy: Proxy) -> World:
    """Our locks, whose clients reach the server by the proxy."""
    ours.url = proxy.url
    return ours


@TOKENS
def test_an_acquire_that_the_client_repeats_is_granted_once(
    token: str | None, proxied: World, proxy: Proxy, server_side: Observer, name: str
) -> None:
    client = retrying(proxied, 3)
    lock = proxied.lock(name, client=client, timeout=20)
    proxied.call(client.ping)
    proxy.lose(1, losses=2)
    assert lock.acquire(token=token, blocking=False) is True
    assert 2 == proxy.lost
    assert lock.owned()
    lock.release()
    assert set() == server_side.keys()


@TOKENS
def test_an_acquire_whose_reply_is_lost_for_good_leaves_nothing_behind(
    token: str | None, proxied: World, proxy: Proxy, server_side: Observer, name: str
) -> None:
    lock = proxied.lock(name, client=retrying(proxied, 0))
    proxy.lose(1)
    with pytest.raises(redis.ConnectionError):
        lock.acquire(token=token)
    assert 1 == proxy.lost
    assert set() == server_side.keys()


def waiting_behind_another(
    world: World, client: redis.Redis, server_side: Observer, retries: int
) -> Future[Any]:
    """Have one wait whose client repeats so often, until it listens."""
    client.set(server_side.name, "theirs")
    turn = world.lock(server_side.name, client=retrying(world, retries)).start("acquire")
    server_side.until_heard(1)
    return turn


def test_a_waiter_whose_reply_is_lost_for_good_leaves_the_queue(
    proxied: World, proxy: Proxy, server_side: Observer, client: redis.Redis, name: str
) -> None:
    turn = waiting_behind_another(proxied, client, server_side, 0)
    proxy.lose(1)
    with pytest.raises(redis.ConnectionError):
        turn.result(PATIENCE)
    assert {name.encode()} == server_side.keys()


def test_a_waiter_keeps_its_place_when_the_client_repeats(
    proxied: World, proxy: Proxy, server_side: Observer, client: redis.Redis, name: str
) -> None:
    turn = waiting_behind_another(proxied, client, server_side, 3)
    proxy.lose(1, losses=2)
    until(lambda: proxy.lost == 2)
    assert 1 == server_side.waiters()
    client.delete(name)
    assert turn.result(PATIENCE) is True


def test_a_release_that_failed_can_be_called_again(
    ours: World, private_server: EmbeddedServer, name: str
) -> None:
    ours.url = private_server.url
    lock = ours.held(name, client=retrying(ours, 0))
    token = lock.token
    private_server.kill()
    with pytest.raises(redis.ConnectionError):
        lock.release()
    assert token == lock.token
    private_server.restart()
    with private_server.client() as client:
        client.set(name, token)
        lock.release()
        assert not client.exists(name)
    assert lock.token is None


def test_an_unreachable_server_is_redis_py_s_connection_error(ours: World, name: str) -> None:
    ours.url = "unix:///nonexistent/compat.sock"
    lock = ours.lock(name)
    with pytest.raises(redis.ConnectionError):
        lock.acquire()
    assert lock.token is None


def test_a_forgotten_script_is_sent_again(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    client.set(name, "theirs")
    turn = ours.lock(name, thread_local=False)
    acquired = server_side.in_line(turn)
    client.script_flush()
    client.delete(name)
    assert acquired.result(PATIENCE) is True
    client.script_flush()
    turn.release()
    assert set() == server_side.keys()


def test_a_waiter_whose_connection_was_killed_listens_anew(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    holder = ours.held(name)
    turn = server_side.in_line(ours.lock(name))
    before = client.hgetall(f"{name}:redis_locks:claims")
    client.client_kill_filter(_type="pubsub")
    until(lambda: before != client.hgetall(f"{name}:redis_locks:claims"))
    server_side.until_heard(1)
    assert before.keys() == client.hgetall(f"{name}:redis_locks:claims").keys()
    holder.release()
    assert turn.result(PATIENCE) is True
