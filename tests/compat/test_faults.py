"""What is left, and what is said, when replies get lost and waits are broken off."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.exceptions import LockError
from redis.retry import Retry
from redis.sentinel import Sentinel

from redis_locks.compat import AsyncLock, Lock, calls, signals, waiting
from redis_locks.drivers.blocking_link import BlockingLink
from redis_locks.testing.server import EmbeddedServer
from tests.compat.conftest import Observer
from tests.compat.worlds import CompatAsync, CompatBlocking, World
from tests.contract.world import PATIENCE, until
from tests.faults.proxy import Proxy

KINDS = pytest.mark.parametrize(
    "kind", [CompatBlocking, CompatAsync], ids=lambda kind: kind.__name__
)
TOKENS = pytest.mark.parametrize("token", [None, "given"])


async def auntil(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0)


def retrying(world: World, times: int) -> Any:
    """A client that repeats a command so often whose reply was lost; redis-py's default is 10."""
    retry = Retry if world.kind == "blocking" else AsyncRetry
    return world.client(retry=retry(NoBackoff(), times))


@KINDS
@TOKENS
def test_an_acquire_that_the_client_repeats_is_granted_once(
    make_world: Callable[..., World],
    kind: type[World],
    token: str | None,
    proxy: Proxy,
    server_side: Observer,
    name: str,
) -> None:
    world = make_world(kind, proxy.url)
    client = retrying(world, 3)
    lock = world.lock(name, client=client, timeout=20)
    world.call(client.ping)
    proxy.lose(1, losses=2)
    assert lock.acquire(token=token, blocking=False) is True
    assert 2 == proxy.lost
    assert lock.owned()
    lock.release()
    assert set() == server_side.keys()


@KINDS
@TOKENS
def test_an_acquire_whose_reply_is_lost_for_good_leaves_nothing_behind(
    make_world: Callable[..., World],
    kind: type[World],
    token: str | None,
    proxy: Proxy,
    server_side: Observer,
    name: str,
) -> None:
    world = make_world(kind, proxy.url)
    lock = world.lock(name, client=retrying(world, 0))
    proxy.lose(1)
    with pytest.raises(redis.ConnectionError):
        lock.acquire(token=token)
    assert 1 == proxy.lost
    assert set() == server_side.keys()


@KINDS
def test_a_waiter_whose_reply_is_lost_for_good_leaves_the_queue(
    make_world: Callable[..., World],
    kind: type[World],
    proxy: Proxy,
    server_side: Observer,
    client: redis.Redis,
    name: str,
) -> None:
    client.set(name, "theirs")
    world = make_world(kind, proxy.url)
    turn = world.lock(name, client=retrying(world, 0)).start("acquire")
    server_side.until_heard(1)
    proxy.lose(1)
    with pytest.raises(redis.ConnectionError):
        turn.result(PATIENCE)
    assert {name.encode()} == server_side.keys()


@KINDS
def test_a_waiter_keeps_its_place_when_the_client_repeats(
    make_world: Callable[..., World],
    kind: type[World],
    proxy: Proxy,
    server_side: Observer,
    client: redis.Redis,
    name: str,
) -> None:
    client.set(name, "theirs")
    world = make_world(kind, proxy.url)
    turn = world.lock(name, client=retrying(world, 3)).start("acquire")
    server_side.until_heard(1)
    proxy.lose(1, losses=2)
    until(lambda: proxy.lost == 2)
    assert 1 == server_side.waiters()
    client.delete(name)
    assert turn.result(PATIENCE) is True


@KINDS
def test_a_release_that_failed_can_be_called_again(
    make_world: Callable[..., World], kind: type[World], private_server: EmbeddedServer, name: str
) -> None:
    world = make_world(kind, private_server.url)
    lock = world.lock(name, client=retrying(world, 0))
    lock.acquire()
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
    acquired = turn.start("acquire")
    server_side.until_heard(1)
    client.script_flush()
    client.delete(name)
    assert acquired.result(PATIENCE) is True
    client.script_flush()
    turn.release()
    assert set() == server_side.keys()


def test_a_waiter_whose_connection_was_killed_listens_anew(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    holder = ours.lock(name)
    holder.acquire()
    turn = ours.lock(name).start("acquire")
    server_side.until_heard(1)
    before = client.hgetall(f"{name}:redis_locks:claims")
    client.client_kill_filter(_type="pubsub")
    until(lambda: before != client.hgetall(f"{name}:redis_locks:claims"))
    server_side.until_heard(1)
    assert before.keys() == client.hgetall(f"{name}:redis_locks:claims").keys()
    holder.release()
    assert turn.result(PATIENCE) is True


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("freed", [False, True], ids=["waiting", "granted"])
def test_an_interrupted_wait_leaves_nothing_behind(
    redis_server: EmbeddedServer,
    server_side: Observer,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    freed: bool,
) -> None:
    client.set(name, "theirs")

    async def receive(self: Any, token: str, timeout: float) -> None:
        assert 1 == server_side.waiters()
        if freed:  # and handed to this waiter: taken from the head of the queue
            assert client.lpop(f"{name}:redis_locks:queue")
            client.hdel(f"{name}:redis_locks:claims", token)
            client.set(name, token, px=2000)
        raise Interrupted

    monkeypatch.setattr(BlockingLink, "receive", receive)
    lock = CompatBlocking(redis_server.url).lock(name)
    with pytest.raises(Interrupted):
        lock.acquire()
    assert (set() if freed else {name.encode()}) == server_side.keys()
    assert lock.token is None


def test_a_cancelled_task_leaves_nothing_behind_wherever_it_was(
    redis_server: EmbeddedServer, server_side: Observer, name: str
) -> None:
    """Cancelled after so many steps of the event loop, until it is fast enough to get the lock."""

    async def run() -> int:
        client = aioredis.Redis.from_url(redis_server.url)
        cancelled = 0
        for steps in range(60):
            lock = client.lock(name, lock_class=AsyncLock)
            task = asyncio.create_task(lock.acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
                await lock.release()
            except asyncio.CancelledError:
                cancelled += 1
            assert await lock.locked() is False, steps
        await client.aclose()
        return cancelled

    assert asyncio.run(run()) > 0
    assert set() == server_side.keys()


class Late(aioredis.Redis):
    """Its first script reaches the server late, even if its caller is gone by then."""

    late: asyncio.Future[Any] | None = None

    def evalsha(self, *arguments: Any) -> Any:
        if self.late is not None:
            return super().evalsha(*arguments)

        async def deliver() -> Any:
            await asyncio.sleep(0.05)
            return await self.eval(calls.ACQUIRE.text, *arguments[1:])

        self.late = asyncio.ensure_future(deliver())
        return asyncio.shield(self.late)


def test_a_cancelled_acquire_does_not_hold_when_its_command_arrives_late(
    redis_server: EmbeddedServer, server_side: Observer, name: str
) -> None:
    async def run() -> None:
        client = Late.from_url(redis_server.url)
        task = asyncio.create_task(client.lock(name, lock_class=AsyncLock).acquire())
        await auntil(lambda: client.late is not None)
        task.cancel()
        await asyncio.wait((task, client.late))
        assert task.cancelled()
        await client.late
        await client.aclose()

    asyncio.run(run())
    assert set() == server_side.keys()


def test_a_cancelled_waiter_leaves_the_queue_and_hands_on(
    redis_server: EmbeddedServer, server_side: Observer, name: str
) -> None:
    async def run() -> None:
        client = aioredis.Redis.from_url(redis_server.url)
        holder, heir = (client.lock(name, lock_class=AsyncLock) for _ in range(2))
        for steps in range(30):
            await holder.acquire()
            doomed = asyncio.create_task(client.lock(name, lock_class=AsyncLock).acquire())
            await auntil(lambda: server_side.waiters() == 1)
            turn = asyncio.create_task(heir.acquire())
            await auntil(lambda: server_side.waiters() == 2)
            await holder.release()
            for _ in range(steps):
                await asyncio.sleep(0)
            got_it = not doomed.cancel()
            try:
                await doomed
                got_it = True
            except asyncio.CancelledError:
                pass
            if got_it:
                await holder.do_release(server_side.client.get(name))
            await asyncio.wait_for(turn, PATIENCE)
            holder.local.token = None
            await heir.release()
        await client.aclose()

    asyncio.run(run())
    assert set() == server_side.keys()


def test_a_cancelled_release_has_released(
    redis_server: EmbeddedServer, server_side: Observer, name: str
) -> None:
    async def run() -> None:
        client = aioredis.Redis.from_url(redis_server.url)
        for steps in range(1, 30):
            lock = client.lock(name, lock_class=AsyncLock)
            await lock.acquire()
            task = asyncio.create_task(lock.release())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert await lock.locked() is False, steps
            with pytest.raises(LockError, match="already unlocked"):
                await lock.release()
        await client.aclose()

    asyncio.run(run())


@pytest.fixture
def user_without_channels(private_server: EmbeddedServer) -> Iterator[dict[str, str]]:
    """A user as ACL makes them by default: the keys of one application, no channels."""
    with private_server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+@all", "resetchannels"
        )
        yield {"username": "app", "password": "pw"}


@KINDS
def test_without_the_right_to_publish_waiters_ask_and_are_served_in_order(
    make_world: Callable[..., World],
    kind: type[World],
    private_server: EmbeddedServer,
    user_without_channels: dict[str, str],
) -> None:
    world = make_world(kind, private_server.url)
    with private_server.client() as client:
        server_side = Observer(client, "app:x")
        holder, first = (
            world.lock("app:x", client=world.client(**user_without_channels), thread_local=False)
            for _ in range(2)
        )
        holder.acquire()
        turn = first.start("acquire")
        server_side.until_waiters(1)
        # This one may listen, but the holder may not tell it.
        second = world.lock("app:x").start("acquire")
        server_side.until_waiters(2)
        server_side.until_heard(1)
        holder.release()
        assert turn.result(PATIENCE) is True
        assert not second.done()
        first.release()
        assert second.result(PATIENCE) is True


@KINDS
def test_on_a_cluster_waiters_ask_and_the_keys_share_a_slot(
    kind: type[World], name: str, redis_server: EmbeddedServer
) -> None:
    port = free_port()
    options = ("--cluster-enabled", "yes", "--port", str(port), "--cluster-port", str(free_port()))
    with EmbeddedServer(options, use_environment=False) as server, server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: client.cluster("info")["cluster_state"] == "ok")
        if kind is CompatBlocking:
            with redis.RedisCluster(host="127.0.0.1", port=port) as cluster:
                holder, waiter = (
                    cluster.lock(name, thread_local=False, lock_class=Lock) for _ in range(2)
                )
                assert holder.acquire()
                turn = CompatBlocking(server.url).start(waiter.acquire)
                until(lambda: client.llen(f"{{{name}}}:redis_locks:queue") == 1)
                holder.release()
                assert turn.result(PATIENCE) is True
                waiter.release()
        else:
            asyncio.run(_on_an_async_cluster(port, name, client))
        assert [] == client.keys("*")


async def _on_an_async_cluster(port: int, name: str, client: redis.Redis) -> None:
    cluster = aioredis.RedisCluster(host="127.0.0.1", port=port)
    holder, waiter = (cluster.lock(name, lock_class=AsyncLock, thread_local=False) for _ in "12")
    assert await holder.acquire()
    turn = asyncio.create_task(waiter.acquire())
    await auntil(lambda: client.llen(f"{{{name}}}:redis_locks:queue") == 1)
    await holder.release()
    assert await asyncio.wait_for(turn, PATIENCE) is True
    await waiter.release()
    await cluster.aclose()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_client_of_sentinel_waits_without_signals() -> None:
    sentinels = [("127.0.0.1", 1)]
    assert signals._blocking_endpoint(Sentinel(sentinels).master_for("primary")) is None
    assert signals._async_endpoint(AsyncSentinel(sentinels).master_for("primary")) is None


def test_locks_need_no_django_settings(redis_server: EmbeddedServer, name: str) -> None:
    code = (
        "import sys, redis, redis_locks.compat as compat\n"
        "client = redis.Redis.from_url(sys.argv[1])\n"
        "with client.lock(sys.argv[2], lock_class=compat.Lock):\n"
        "    print(client.lock(sys.argv[2], lock_class=compat.Lock).acquire(blocking_timeout=0.2))\n"
    )
    environment = {"PATH": "/usr/bin"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, redis_server.url, name],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ("False\n", "") == (ran.stdout, ran.stderr)


def test_the_first_waiter_s_poll_leaves_time_for_its_round_trip() -> None:
    assert waiting.POLL < 0.1
