"""One vocabulary for both worlds: every contract test runs with threads and with tasks."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import redis

from redis_locks import Hold, Lock, inspection
from redis_locks.inspection import LockInfo
from tests.support import stored
from tests.support.keys import keys_of
from tests.support.leases import until_renewed
from tests.support.waiting import PATIENCE, until

T = TypeVar("T")


class World(Protocol):
    kind: str

    def start(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        """Run one of the methods below at the same time as the test."""

    def acquire(self, lock: Lock, **options: Any) -> Hold | None:
        """Acquire as a party of its own: in a new thread, or a new task."""

    def release(self, hold: Hold) -> None: ...
    def extend(self, hold: Hold, seconds: float) -> None: ...
    def do(self, hold: Hold, verb: str, *args: Any, **options: Any) -> Any:
        """Call the method of `hold` that is named `verb`, or its async twin."""

    def block(self, lock: Any, body: Callable[[Hold], Any]) -> Any:
        """Enter `lock` (a Lock or what Lock.hold returned), run `body`, leave."""

    def close(self) -> None: ...


class Threads:
    """Holders are threads."""

    kind = "blocking"

    def start(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised again by result()
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def acquire(self, lock: Lock, **options: Any) -> Hold | None:
        return self.start(lock.acquire, **options).result(PATIENCE * 2)

    def release(self, hold: Hold) -> None:
        hold.release()

    def extend(self, hold: Hold, seconds: float) -> None:
        hold.extend(seconds)

    def do(self, hold: Hold, verb: str, *args: Any, **options: Any) -> Any:
        return getattr(hold, verb)(*args, **options)

    def block(self, lock: Any, body: Callable[[Hold], Any]) -> Any:
        with lock as hold:
            return body(hold)

    def close(self) -> None:
        pass


class Tasks:
    """Holders are tasks of one event loop, which runs in a thread of its own."""

    kind = "async"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.submit(coroutine).result(PATIENCE * 2)

    def start(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        twin = getattr(self, f"_{work.__name__}")
        return self.submit(twin(*args, **kwargs))

    def acquire(self, lock: Lock, **options: Any) -> Hold | None:
        return self.run(self._acquire(lock, **options))

    def release(self, hold: Hold) -> None:
        self.run(self._release(hold))

    def extend(self, hold: Hold, seconds: float) -> None:
        self.run(self._extend(hold, seconds))

    def do(self, hold: Hold, verb: str, *args: Any, **options: Any) -> Any:
        return self.run(self._do(hold, verb, *args, **options))

    def block(self, lock: Any, body: Callable[[Hold], Any]) -> Any:
        return self.run(self._block(lock, body))

    async def _acquire(self, lock: Lock, **options: Any) -> Hold | None:
        return await lock.aacquire(**options)

    async def _release(self, hold: Hold) -> None:
        await hold.arelease()

    async def _extend(self, hold: Hold, seconds: float) -> None:
        await hold.aextend(seconds)

    async def _do(self, hold: Hold, verb: str, *args: Any, **options: Any) -> Any:
        return await getattr(hold, f"a{verb}")(*args, **options)

    async def _block(self, lock: Any, body: Callable[[Hold], Any]) -> Any:
        async with lock as hold:
            result = body(hold)
            return await result if asyncio.iscoroutine(result) else result

    def close(self) -> None:
        self.run(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        # What other threads have called here meanwhile, such as to tell of a loss.
        self.loop.run_until_complete(self._end())
        self.loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()


def let_go(world: World | None = None) -> None:
    """Collect what nobody wants any more, once the loop's thread has let go of what it returned.

    To be repeated until what was dropped is gone: a thread that renews leases may be looking at it.
    """
    if isinstance(world, Tasks):
        world.run(asyncio.sleep(0))
    gc.collect()


class Observer:
    """Reads the server's side of a lock, as nobody's holder or waiter."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def waiters(self, name: str) -> int:
        return len(stored.line(self.client, keys_of(name).lock))

    def until_waiters(self, name: str, count: int, *, within: float = PATIENCE) -> None:
        until(lambda: self.waiters(name) == count, within=within)

    def holder(self, name: str) -> str | None:
        """The token that holds the lock."""
        found = stored.living_holder(self.client, keys_of(name).lock)
        return found[0].decode() if found else None

    def fencing_token(self, name: str) -> int | None:
        """The fencing token of who holds the lock alone."""
        found = stored.living_holder(self.client, keys_of(name).lock)
        return int(found[2]) if found else None

    def noted(self, name: str) -> list[bytes]:
        """What those who wait for long have noted of locks with `name` in their names."""
        noted = self.client.hvals("redis_locks{0}:waits")
        return [wait for wait in noted if name.encode() in wait]

    def left_of(self, name: str) -> set[str]:
        """What is in Redis of one lock, in any key, less what is remembered of it for a while."""
        left = set()
        for key in self.client.scan_iter(match="redis_locks{*", count=1000):
            kind, _, of = key.decode(errors="replace").partition("}:")[2].partition(":")
            if of == name and kind == "lock":
                left |= stored.in_use(self.client, key)
            elif of == name or self._mentions(kind, key, name):
                left.add(kind)
        return left

    def _mentions(self, kind: str, key: bytes, name: str) -> bool:
        """Whether a key that is of no one lock has something of this one."""
        if kind == "index":
            return self.client.zscore(key, name) is not None
        if kind == "set":
            return name.encode() in self.client.lrange(key, 0, -1)
        return False  # what those who wait noted goes by itself within a minute

    def commands(self) -> int:
        """How many commands clients have sent, the scripts' own and this observer's left out."""
        sent = ("evalsha", "eval", "subscribe", "hello", "ping", "client|setinfo")
        stats = self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{word}", {}).get("calls", 0) for word in sent)


def held(world: World, lock: Lock, **options: Any) -> Hold:
    """Acquire `lock`, which must be granted."""
    hold = world.acquire(lock, **options)
    assert hold is not None
    return hold


def in_line(
    world: World, lock: Lock, server_side: Observer, *, place: int = 1, **options: Any
) -> Future[Hold | None]:
    """Have another party ask for `lock`, and return once it is the waiter at this place in line."""
    asked = world.start(world.acquire, lock, **options)
    server_side.until_waiters(lock.names[0], place)
    return asked


def queue(world: World, lock: Lock, server_side: Observer, count: int) -> list[Future[Hold | None]]:
    """Let so many more wait for the lock, one after another."""
    before = server_side.waiters(lock.names[0])
    places = range(before + 1, before + count + 1)
    return [in_line(world, lock, server_side, place=each, wait=PATIENCE) for each in places]


def served(world: World, waiter: Future[Hold | None]) -> None:
    """The waiter gets the lock, and releases it."""
    world.release(granted(waiter.result(PATIENCE)))


def granted(hold: Hold | None) -> Hold:
    """Return what an acquire has got, which must be a hold."""
    assert hold is not None
    return hold


def existing(name: str) -> LockInfo:
    """Return what is known of a lock, which somebody must hold or wait for."""
    found = inspection.lock(name)
    assert found is not None
    return found
