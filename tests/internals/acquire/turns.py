"""A lock that is waited for again and again, so that the next question may be a silent one.

No hold is renewed: that needs a connection, too, and here there is one whose round trips are
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
import redis

from redis_locks import Lock
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.protocol import renewal, silent_questions
from redis_locks.protocol.lease import Lease
from redis_locks.testing.server import EmbeddedServer
from tests.support.events import nobody_counts
from tests.support.world import PATIENCE, Observer, Tasks, Threads, granted


class Turns:
    """A lock that a task holds; we wait for it with the only connection that threads have."""

    def __init__(self, driver: BlockingDriver, client: redis.Redis, lock: Lock) -> None:
        self.driver = driver
        self.client = client
        self.lock = lock
        self.asked: list[bytes] = []
        self.trips = 0
        """Round trips of threads."""
        self.before_release: Callable[[], object] = int
        self.read: list[list[Any]] = []
        self.left = 0.0
        """Seconds of lease that the last one that was waited for had when it was acquired."""
        self.began = 0.0
        """When the last one that was waited for began, in seconds after it was released."""
        self._tasks = Tasks()

    def wait(self, lock: Any = None, *, wait: float | None = PATIENCE) -> int:
        """Wait for a lock that is handed on, and release it; return how many asks were silent."""
        lock = lock or self.lock
        before = len(self.asked)
        held = granted(self._tasks.acquire(lock))
        waiting = Threads().start(lock.acquire, wait=wait)
        Observer(self.client).until_waiters(lock.name, 1)
        self.before_release()
        released = monotonic()
        self._tasks.release(held)
        hold = waiting.result(PATIENCE)
        self.left = hold.remaining
        self.read.append(hold.read)
        self.began = hold.lease.since - released
        hold.release()
        return len(self.asked) - before

    def take(self) -> int:
        """Take the lock, which is free, as `wait` does."""
        before = len(self.asked)
        with self.lock as hold:
            self.read.append(hold.read)
        return len(self.asked) - before

    def close(self) -> None:
        self._tasks.close()
        self.driver.skips_replies, self.driver.parks = None, True


@pytest.fixture
def turns(
    own_server: EmbeddedServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Turns]:
    driver = backend_for(own_server.url).driver
    assert isinstance(driver, BlockingDriver)
    driver.drop_idle()
    driver.checkin(run_blocking(driver.checkout()))
    with own_server.client() as client:
        made = Turns(driver, client, Lock(name, lease=60, using=own_server.url))
        plain = BlockingLink.message_after

        def message_after(link: BlockingLink, commands: bytes, *args: Any) -> bytes | None:
            assert commands.startswith(silent_questions.SKIP_REPLY)
            made.asked.append(commands)
            return plain(link, commands, *args)

        trips, exchange = BlockingLink.exchange_all, BlockingLink.exchange

        def exchanged(link: BlockingLink, packet: bytes) -> Any:
            made.trips += 1
            return exchange(link, packet)

        def exchanged_all(link: BlockingLink, packet: bytes, *args: Any) -> list[Any]:
            made.trips += 1
            if packet.startswith(silent_questions.SKIP_REPLY):
                made.asked.append(packet)
            return trips(link, packet, *args)

        async def not_now(_: object, leases: list[Lease]) -> None:
            for lease in leases:
                lease.postpone()

        monkeypatch.setattr(renewal, "renew", not_now)
        monkeypatch.setattr(BlockingLink, "message_after", message_after)
        monkeypatch.setattr(BlockingLink, "exchange_all", exchanged_all)
        monkeypatch.setattr(BlockingLink, "exchange", exchanged)
        monkeypatch.setattr(silent_questions, "BRIEF", PATIENCE)
        monkeypatch.setattr(silent_questions, "SILENCE", 0.9)
        nobody_counts(monkeypatch)
        yield made
        made.close()
