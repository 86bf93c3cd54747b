"""One vocabulary for four lock classes: redis-py's two and ours, blocking and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import redis
import redis.asyncio as aioredis
from redis.asyncio.lock import Lock as AsyncRedisLock
from redis.lock import Lock as RedisLock

from redis_locks.compat import AsyncLock, Lock
from tests.support.world import PATIENCE, Tasks, Threads


async def auntil(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0)


METHODS = {
    "acquire",
    "do_acquire",
    "do_release",
    "extend",
    "locked",
    "owned",
    "reacquire",
    "release",
}


class Handle:
    """A lock whose methods block, whatever its class; everything else is the lock's own."""

    def __init__(self, world: World, lock: Any) -> None:
        self.world = world
        self.lock = lock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.lock, name)
        if name in METHODS:
            return lambda *args, **kwargs: self.world.call(found, *args, **kwargs)
        return found

    @property
    def token(self) -> bytes | None:
        """The token as the thread that uses the lock sees it."""

        async def look() -> bytes | None:
            return self.lock.local.token

        if isinstance(self.world, Async):
            return self.world.tasks.run(look())
        return self.lock.local.token

    def block(self, body: Callable[[Any], Any]) -> Any:
        return self.world.block(self.lock, body)

    def start(self, method: str, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a method at the same time as the test."""
        return self.world.start(getattr(self.lock, method), *args, **kwargs)


class World:
    kind: str
    lock_class: Any

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: list[Any] = []

    def client(self, **options: Any) -> Any:
        if options.get("protocol") == 3 and redis.__version__.startswith("7."):
            pytest.skip("redis-py 7 cannot connect with RESP3 to a unix socket")
        return self.keep(self.make_client(**options))

    def keep(self, client: Any) -> Any:
        """Close the client when this is closed."""
        self._clients.append(client)
        return client

    def lock(self, name: Any, *, client: Any = None, **options: Any) -> Handle:
        client = client or self.client()
        return Handle(self, self.make_lock(client, name, options))

    def held(self, name: Any, *, token: Any = None, **options: Any) -> Handle:
        """A lock that was acquired."""
        lock = self.lock(name, **options)
        assert lock.acquire(token=token)
        return lock

    def make_lock(self, client: Any, name: Any, options: dict[str, Any]) -> Any:
        return client.lock(name, lock_class=self.lock_class, **options)

    def make_client(self, **options: Any) -> Any:
        raise NotImplementedError

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def start(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError

    def block(self, lock: Any, body: Callable[[Any], Any]) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Blocking(World):
    kind = "blocking"

    def make_client(self, **options: Any) -> Any:
        return redis.Redis.from_url(self.url, **options)

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    def start(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        return Threads().start(method, *args, **kwargs)

    def block(self, lock: Any, body: Callable[[Any], Any]) -> Any:
        with lock as entered:
            return body(entered)

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Async(World):
    kind = "async"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.tasks = Tasks()

    def make_client(self, **options: Any) -> Any:
        return aioredis.Redis.from_url(self.url, **options)

    def make_lock(self, client: Any, name: Any, options: dict[str, Any]) -> Any:
        """Make it in the loop's thread: the token is local to it."""

        async def make() -> Any:
            return client.lock(name, lock_class=self.lock_class, **options)

        return self.tasks.run(make())

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.start(method, *args, **kwargs).result(PATIENCE)

    def start(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        async def call() -> Any:
            return await method(*args, **kwargs)

        return self.tasks.submit(call())

    def block(self, lock: Any, body: Callable[[Any], Any]) -> Any:
        async def enter() -> Any:
            async with lock as entered:
                return body(entered)

        return self.tasks.run(enter())

    def close(self) -> None:
        for client in self._clients:
            self.call(client.aclose)
        self.tasks.close()


class RedisPyBlocking(Blocking):
    lock_class = RedisLock


class RedisPyAsync(Async):
    lock_class = AsyncRedisLock


class CompatBlocking(Blocking):
    lock_class = Lock


class CompatAsync(Async):
    lock_class = AsyncLock


THEIRS = (RedisPyBlocking, RedisPyAsync)
OURS = (CompatBlocking, CompatAsync)
