"""Whether a question is a silent one depends on how the wait before has ended, and on who wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
import redis

from redis_locks import Lock, LockBackendError, Semaphore, silent
from redis_locks.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.blocking_link import BlockingLink
from redis_locks.drivers.wire import pack_command
from redis_locks.observing import LockEvent
from redis_locks.silent import SKIP_REPLY
from redis_locks.telling import Teller
from redis_locks.testing.server import EmbeddedServer
from tests.contract.stage import deaf
from tests.contract.world import PATIENCE, Observer, Tasks, Threads


class Turns:
    """A lock that a task holds, and for which we wait with the only connection that threads have."""

    def __init__(self, driver: BlockingDriver, client: redis.Redis, lock: Lock) -> None:
        self.driver = driver
        self.client = client
        self.lock = lock
        self.asked: list[bytes] = []
        self.read: list[list[Any]] = []
        self.began = 0.0
        """When the last one that was waited for began, in seconds after it was released."""
        self._tasks = Tasks()

    def wait(self, lock: Any = None, *, wait: float = PATIENCE) -> int:
        """Wait for a lock that is handed on, and release it; return how often that was asked for silently."""
        lock = lock or self.lock
        before = len(self.asked)
        held = self._tasks.acquire(lock)
        assert held
        waiting = Threads().start(lock.acquire, wait=wait)
        Observer(self.client).until_waiters(lock.name, 1)
        released = monotonic()
        self._tasks.release(held)
        hold = waiting.result(PATIENCE)
        self.read.append(hold.read)
        self.began = hold._lease.since - released
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
        self.driver.skips_replies = None


@pytest.fixture
def turns(
    own_server: EmbeddedServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Turns]:
    driver = backend_for(own_server.url).prompt
    assert isinstance(driver, BlockingDriver)
    driver.drop_idle()
    driver.checkin(run_blocking(driver.checkout()))
    with own_server.client() as client:
        made = Turns(driver, client, Lock(name, using=own_server.url))
        plain = BlockingLink.message_after

        def message_after(link: BlockingLink, commands: bytes, *args: Any) -> bytes | None:
            assert commands.startswith(silent.SKIP_REPLY)
            made.asked.append(commands)
            return plain(link, commands, *args)

        monkeypatch.setattr(BlockingLink, "message_after", message_after)
        monkeypatch.setattr(silent, "BRIEF", PATIENCE)
        monkeypatch.setattr(silent, "SILENCE", 1.0)
        monkeypatch.setattr(Teller, "count", lambda *_: False)
        yield made
        made.close()


def test_after_a_short_wait_the_same_lock_is_asked_for_silently_until_it_is_free(
    turns: Turns,
) -> None:
    assert [0, 1, 1] == [turns.wait() for _ in range(3)]
    assert [1, 0] == [turns.take() for _ in range(2)]
    assert [0, 1] == [turns.wait() for _ in range(2)]


def test_after_a_long_wait_it_is_not(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent, "BRIEF", 0.0)
    assert [0, 0] == [turns.wait() for _ in range(2)]


def test_who_waits_no_longer_than_the_silence_is_told_at_once(turns: Turns) -> None:
    assert [0, 0, 1] == [turns.wait(wait=wait) for wait in (PATIENCE, silent.SILENCE, PATIENCE)]


def test_it_is_held_since_it_was_granted_and_not_since_it_was_asked_for(turns: Turns) -> None:
    assert [0, 1] == [turns.wait(), turns.wait()]
    assert turns.began >= 0


def test_with_a_lease_that_the_silence_would_eat_up_it_is_not(turns: Turns) -> None:
    turns.lock = Lock(turns.lock.name, using=turns.lock._using, lease=0.99)
    assert [0, 0] == [turns.wait(), turns.wait()]


def test_another_lock_is_not_asked_for_silently(turns: Turns) -> None:
    other = Lock(f"{turns.lock.name}:other", using=turns.lock._using)
    assert [0, 0, 0] == [turns.wait(lock) for lock in (turns.lock, other, turns.lock)]


def test_nor_is_a_permit_or_a_share(turns: Turns) -> None:
    permit = Semaphore(turns.lock.name, 1, using=turns.lock._using)
    assert [0, 0, 0] == [turns.wait(lock) for lock in (turns.lock, permit, permit)]


def test_a_silence_in_which_nothing_is_heard_is_the_last_one(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.wait()
    monkeypatch.setattr(silent, "SILENCE", 0.01)
    with deaf():
        assert [1, 0] == [turns.take() for _ in range(2)]


def test_as_long_as_somebody_is_told_who_holds_it_nothing_is_asked_silently(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LockEvent] = []

    async def tell(_: Teller, event: LockEvent, *, task: bool) -> None:
        told.append(event)

    monkeypatch.setattr(Teller, "tell", tell)
    turns.wait()
    monkeypatch.setattr(Teller, "count", lambda _, kind, *__: kind == "contended")
    assert [1, 0, 0] == [turns.wait() for _ in range(3)]
    # The first of them was on its way already.
    assert [False, True, True] == [bool(event.holder) for event in told]


def test_of_contention_as_much_is_counted(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    monkeypatch.setattr(Teller, "count", lambda _, kind, *__: counted.append(kind))
    turns.wait()
    aloud = counted.copy()
    counted.clear()
    turns.wait()
    assert sorted(aloud) == sorted(counted)
    assert 1 == counted.count("contended")
    turns.take()
    assert 1 == counted.count("contended")


def test_what_is_read_along_is_read_when_it_is_held(turns: Turns) -> None:
    key = f"data:{turns.lock.name}"
    turns.client.set(key, "7", px=60_000)
    turns.lock = Lock(turns.lock.name, using=turns.lock._using, read=[("GET", key)])
    assert [0, 1, 1] == [turns.wait(), turns.wait(), turns.take()]
    assert [[b"7"]] * 3 == turns.read


def test_a_server_that_answers_all_the_same_is_asked_again_and_never_silently_any_more(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.wait()
    monkeypatch.setattr(silent, "SKIP_REPLY", pack_command("CLIENT", "REPLY", "SKIPPED"))
    assert [1, 0] == [turns.take() for _ in range(2)]
    assert not turns.driver.skips_replies
    monkeypatch.setattr(silent, "SKIP_REPLY", SKIP_REPLY)
    assert [0, 0] == [turns.wait() for _ in range(2)]


def test_a_silence_with_a_server_that_was_never_heard_to_keep_it_ends_its_connection(
    turns: Turns,
) -> None:
    """It may answer yet, and the next question would get that reply."""
    turns.wait()
    (before,) = turns.driver._idle
    with deaf():
        assert 1 == turns.take()
    assert before.broken
    assert [0, 1] == [turns.wait() for _ in range(2)]
    (proven,) = turns.driver._idle
    with deaf():
        assert 1 == turns.take()
    assert not proven.broken


@pytest.mark.parametrize(
    ("server", "version", "hears"),
    [
        ("redis", "7.0.9", False),
        ("redis", "7.0.10", True),
        ("redis", "7.2.0", True),
        ("valkey", "9.1.2", True),
        ("valkey", "7.0.1", True),
    ],
)
def test_servers_that_would_hold_the_grant_back_are_asked_aloud(
    turns: Turns, server: str, version: str, hears: bool
) -> None:
    (link,) = turns.driver._idle
    for told in (
        {"server": server, "version": version},
        {b"server": server.encode(), b"version": version.encode()},
    ):
        link._connection.handshake_metadata = told
        link.quick_keys = None
        assert [0, hears] == [turns.wait() for _ in range(2)]


def test_a_server_that_is_gone_is_an_error_as_soon_as_ever(name: str) -> None:
    with EmbeddedServer(use_environment=False) as server:
        lock = Lock(name, using=server.url)
        with lock:
            pass
        driver = backend_for(server.url).prompt
        assert isinstance(driver, BlockingDriver)
        for link in driver._idle:
            link.quick_keys = backend_for(server.url).keys(name)
    started = monotonic()
    with pytest.raises(LockBackendError):
        lock.acquire(wait=PATIENCE)
    assert monotonic() - started < PATIENCE / 2
