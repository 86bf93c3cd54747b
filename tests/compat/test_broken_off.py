"""A wait, an acquire or a release that is interrupted or cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio as aioredis
from redis.exceptions import LockError

from redis_locks.compat import AsyncLock, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.compat.conftest import Observer
from tests.compat.worlds import CompatBlocking, auntil
from tests.support.compat import ACQUIRE
from tests.support.connections import on_receive
from tests.support.interrupts import sweep
from tests.support.world import PATIENCE


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

    async def interrupted(plain: object, token: str, timeout: float) -> None:
        assert 1 == server_side.waiters()
        if freed:  # and handed to this waiter: taken from the head of the queue
            assert client.zpopmin(f"{name}:redis_locks:line")
            client.hdel(f"{name}:redis_locks:claims", token)
            client.set(name, token, px=2000)
        raise Interrupted

    on_receive(monkeypatch, "blocking", interrupted)
    lock = CompatBlocking(redis_server.url).lock(name)
    with pytest.raises(Interrupted):
        lock.acquire()
    assert (set() if freed else {name.encode()}) == server_side.keys()
    assert lock.token is None


def test_an_interrupt_at_any_step_leaves_no_lock_that_nobody_owns_and_seldom_one_at_all(
    client: redis.Redis, name: str
) -> None:
    lock = Lock(client, name)  # without a timeout, so that what is left is left for ever

    def cycle() -> None:
        lock.acquire()
        lock.release()

    left = []

    def check(where: str) -> None:
        if lock.locked():  # which also opens the connection that was closed
            assert lock.owned(), where
            left.append(where)
            lock.release()

    sweep(cycle, 1, check)
    assert len(left) < 10, left


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
            return await self.eval(ACQUIRE.text, *arguments[1:])

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


def test_a_cancelled_release_has_released(redis_server: EmbeddedServer, name: str) -> None:
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
            with pytest.raises(LockError, match="unlocked"):
                await lock.release()
        await client.aclose()

    asyncio.run(run())
