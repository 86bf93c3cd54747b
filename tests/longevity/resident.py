"""A process that uses locks in all ways, at a steady pace, until its input ends.

Started as ``python -m tests.longevity.resident URL NUMBER SHARE``. Each line of input asks for one
line of JSON: what the process knows of itself. Two threads and two tasks live as long as the
process. Others come and go, with event loops of their own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from tests.support.thread_or_task import ThreadOrTask

HOT, FREE, PAIRS = 4, 200, 3
"""How many locks are contended, are used by one process after another, and are taken two at a time
in any order.
"""

SHORT_LIVED: Final = 30
"""One section in so many runs in a thread of its own, and one in so many in an event loop of its
own.
"""

LEASE: Final = 30.0
SHORT_LEASE: Final = 5.0

LINKS: Final = 6
"""More threads than ask at the same moment: the lives, one that comes and goes, and those of the
package.

A pool opens a link when all others are in use. Such moments are rare, so it might grow for an hour
to this size.
"""

NAMES_KEPT: Final = 5000
"""More names than a process keeps the keys of."""

BURST: Final = 20.0
"""Seconds for which all run as fast as they can at first, so that memory comes to its size before
it counts.
"""


class Pace:
    """Keeps the process at its share of a processor.

    Args:
        share: The part of a processor that the process may use.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._due = time.monotonic()
        self._free_until = self._due + BURST
        self._spent = time.process_time()
        self._mutex = threading.Lock()

    def pause(self) -> float:
        """Return for how many seconds whoever asks is to sleep now."""
        with self._mutex:
            now, spent = time.monotonic(), time.process_time()
            used, self._spent = spent - self._spent, spent
            if now < self._free_until:
                self._due = now
                return 0.001
            # What was not used is not saved up.
            self._due = max(self._due + used / self._share, now - 1.0)
            return min(max(self._due - now, 0.001), 5.0)


class Life(ThreadOrTask):
    """What one thread or task does.

    Args:
        seed: Of its choices and of the names of its own locks.
        told: Counts what it did, and the errors it was told.
        tasks: Whether it is a task.
        number: Of the section before its first.
    """

    def __init__(self, seed: str, told: Counter[str], *, tasks: bool, number: int = 0) -> None:
        super().__init__(tasks=tasks)
        self._chance = random.Random(f"{seed} {number}")
        self._seed = seed
        self._told = told
        self._number = number
        self._sections: list[Callable[[], Awaitable[None]]] = [
            *[self._hot] * 6,
            *[self._free] * 6,
            *[self._once] * 2,
            *[self._shared] * 3,
            *[self._permit] * 3,
            *(self._several, self._nested, self._commit, self._run_once, self._refused),
            *(self._renewed, self._gives_up, self._converted, self._moved, self._dropped),
            *(self._fails, self._crossing, self._operated, self._optimistic, self._read),
        ]  # fmt: skip

    async def run(self, stop: threading.Event, pace: Pace) -> None:
        """Run sections until told to stop."""
        while not stop.is_set():
            await self.section()
            await self._sleep(pace.pause())

    async def section(self) -> None:
        """Run one section of a random kind."""
        from redis_locks import LockError

        self._number += 1
        kind = self._chance.choice(self._sections)
        try:
            await kind()
        except Exception as error:  # noqa: BLE001 - reported
            known = isinstance(error, LockError)
            what = type(error).__name__ if known else f"broken: {error!r}"
            self._told[f"{what} in {kind.__name__.strip('_')}"] += 1
        self._told["sections"] += 1

    async def _hold(self, lock: Any, seconds: float = 0.0, **options: Any) -> Any:
        """Take a lock, keep it for a while and release it."""
        hold = await self._call(lock, "acquire", **options)
        if hold is not None:
            await self._sleep(seconds)
            await self._call(hold, "release")
        return hold

    def _lock(self, name: str, *more: str, **options: Any) -> Any:
        from redis_locks import Lock

        return Lock(name, *more, **{"lease": LEASE, "wait": 60.0, **options})

    def _any(self, kind: str, count: int) -> str:
        return f"{kind}:{self._chance.randrange(count)}"

    async def _hot(self) -> None:
        await self._hold(self._lock(self._any("hot", HOT)), 0.002)

    async def _free(self) -> None:
        await self._hold(self._lock(self._any("free", FREE)))

    async def _once(self) -> None:
        await self._hold(self._lock(f"once:{self._seed}:{self._number}"))

    async def _shared(self) -> None:
        mode = self._chance.choice(["shared", "shared", "shared", "exclusive"])
        await self._hold(self._lock(self._any("read", HOT), mode=mode), 0.005)

    async def _permit(self) -> None:
        from redis_locks import Semaphore

        await self._hold(Semaphore("permits", 3, lease=LEASE, wait=60.0), 0.005)

    async def _several(self) -> None:
        names = self._chance.sample([f"hot:{i}" for i in range(HOT)], 2)
        await self._hold(self._lock(*names), 0.002)

    async def _nested(self) -> None:
        lock = self._lock(self._any("hot", HOT))
        hold = await self._call(lock, "acquire")
        for _ in range(3):
            await self._hold(lock)
        await self._call(hold, "release")

    async def _commit(self) -> None:
        hold = await self._call(self._lock(self._any("hot", HOT)), "acquire")
        await self._call(hold, "commit", [("INCR", "data:commits")])

    async def _read(self) -> None:
        reads = [("GET", "data:commits"), ("STRLEN", "data:large")]
        await self._hold(self._lock(self._any("hot", HOT), read=reads), 0.002)

    async def _run_once(self) -> None:
        from redis_locks import AlreadyDone, run_once

        job = run_once(
            f"job:{self._seed}:{self._number}", done_ttl=30.0, store_result=True, lease=LEASE
        )
        attempt = await self._call(job, "acquire")
        await self._call(attempt, "done", {"number": self._number})
        with suppress(AlreadyDone):
            await self._call(job, "acquire")

    async def _refused(self) -> None:
        await self._hold(self._lock(self._any("hot", HOT)), wait=0)

    async def _renewed(self) -> None:
        """Longer than its lease."""
        await self._hold(self._lock(f"renewed:{self._seed}", lease=SHORT_LEASE), 2 * SHORT_LEASE)

    async def _gives_up(self) -> None:
        """It waits in vain for a hold that it has given away, or its wait is cancelled."""
        from redis_locks import Hold

        lock = self._lock(f"given away:{self._seed}")
        hold = await self._call(lock, "acquire")
        text = await self._call(hold, "detach")
        if self._tasks:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await lock.aacquire()
        else:
            await self._call(lock, "acquire", wait=0.05)
        adopted = await self._call(Hold, "adopt", text)
        await self._call(adopted, "release")

    async def _converted(self) -> None:
        hold = await self._call(self._lock(self._any("converted", HOT), mode="shared"), "acquire")
        try:
            await self._call(hold, "upgrade", wait=1.0)
            await self._call(hold, "downgrade")
        finally:
            await self._call(hold, "release")

    async def _moved(self) -> None:
        from redis_locks import Hold

        hold = await self._call(self._lock(self._any("free", FREE)), "acquire")
        text = await self._call(hold, "detach")
        adopted = await self._call(Hold, "adopt", text)
        await self._call(adopted, "extend", LEASE + 5)
        await self._call(adopted, "release")

    async def _dropped(self) -> None:
        """Nobody releases it."""
        lock = self._lock(f"dropped:{self._seed}", lease=SHORT_LEASE, reentrant=False)
        await self._call(lock, "acquire", wait=0)

    async def _fails(self) -> None:
        lock = self._lock(self._any("hot", HOT))
        with suppress(ZeroDivisionError):
            if self._tasks:
                async with lock:
                    raise ZeroDivisionError
            with lock:
                raise ZeroDivisionError

    async def _crossing(self) -> None:
        """Two locks one after the other, in any order: deadlocks."""
        first, second = self._chance.sample([f"pair:{i}" for i in range(PAIRS)], 2)
        hold = await self._call(self._lock(first), "acquire")
        if hold is None:
            return  # others cross there, one after the other
        try:
            await self._sleep(0.02)
            await self._hold(self._lock(second))
        finally:
            await self._call(hold, "release")

    async def _operated(self) -> None:
        """An operator looks, and ends the hold."""
        from redis_locks import LockLost, inspection

        name = f"operated:{self._seed}"
        hold = await self._call(self._lock(name), "acquire")
        for verb, *args in (("locks",), ("lock", name), ("force_release", name)):
            await self._call(inspection, verb, *args)
        with suppress(LockLost):
            await self._call(hold, "release")

    async def _optimistic(self) -> None:
        from redis_locks import optimistic

        key = self._any("data:optimistic", HOT)
        if self._tasks:

            async def count_up(pipe: Any) -> None:
                value = await pipe.get(key)
                pipe.multi()
                pipe.set(key, int(value or 0) + 1)

            await optimistic.arun(count_up, key, attempts=100)
            return

        def count(pipe: Any) -> None:
            value = pipe.get(key)
            pipe.multi()
            pipe.set(key, int(value or 0) + 1)

        optimistic.run(count, key, attempts=100)


def configure(url: str) -> None:
    """Set this process up: Django, and locks on the server at `url`."""
    import django
    from django.conf import settings

    logging.getLogger("redis_locks").addHandler(logging.NullHandler())
    logging.getLogger("redis_locks").propagate = False
    # Holds are dropped here without a release.
    warnings.simplefilter("ignore", ResourceWarning)
    settings.configure(
        SECRET_KEY="only for tests",  # noqa: S106
        INSTALLED_APPS=["redis_locks"],
        REDIS_LOCKS={"CONNECTION": url, "LOG_LOCK_WAITS": False},
    )
    django.setup()


class Resident:
    """The process.

    Args:
        number: Which one it is.
        share: The part of a processor that it may use.
    """

    def __init__(self, number: int, share: float) -> None:
        self._number = number
        self._pace = Pace(share)
        self._stop = threading.Event()
        self._told: Counter[str] = Counter()

    def start(self) -> list[threading.Thread]:
        """Fill the pool and what is kept of names, and begin.

        Return the threads that end when it is to stop.
        """
        from redis_locks import Lock
        from tests.support.connections import open_links

        open_links(LINKS)
        for number in range(NAMES_KEPT):
            with Lock(f"once:{self._number}.{number}"):
                pass
        works: list[Callable[[], None]] = [
            *(lambda each=each: self._in_thread(f"{self._number}.{each}") for each in range(2)),  # type: ignore[misc]
            self._in_loop,
            self._comers,
        ]
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        return threads

    def stop(self) -> None:
        """Let all come to their ends."""
        self._stop.set()

    def signs(self) -> dict[str, Any]:
        """Return what the process knows of itself."""
        gc.collect()
        return {"blocks": sys.getallocatedblocks(), "told": dict(self._told)}

    def _in_thread(self, seed: str) -> None:
        from redis_locks.drivers.base import run_blocking

        run_blocking(Life(seed, self._told, tasks=False).run(self._stop, self._pace))

    def _in_loop(self) -> None:
        async def main() -> None:
            lives = [Life(f"{self._number}.{each}", self._told, tasks=True) for each in ("a", "b")]
            await asyncio.gather(*(life.run(self._stop, self._pace) for life in lives))

        asyncio.run(main())

    def _comers(self) -> None:
        """Threads and event loops that live for a section."""
        number = 0
        while not self._stop.wait(max(self._pace.pause(), 0.01) * SHORT_LIVED):
            number += 1
            tasks = bool(number % 2)
            seed = f"{self._number}.{'task' if tasks else 'thread'}"
            life = Life(seed, self._told, tasks=tasks, number=number)
            thread = threading.Thread(target=self._once_in, args=(life, tasks))
            thread.start()
            thread.join()

    @staticmethod
    def _once_in(life: Life, tasks: bool) -> None:
        from redis_locks.drivers.base import run_blocking

        run: Callable[..., object] = asyncio.run if tasks else run_blocking
        run(life.section())


def main(url: str, number: int, share: float) -> None:
    """Run until the input ends."""
    configure(url)
    resident = Resident(number, share)
    threads = resident.start()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(resident.signs()) + "\n")
        sys.stdout.flush()
    resident.stop()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
