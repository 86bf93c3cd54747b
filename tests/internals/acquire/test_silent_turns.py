"""Whether a question is silent: it depends on how the wait before ended, and on who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from time import monotonic
from typing import Final

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from redis_locks import Lock, LockBackendError, LockError, Semaphore, inspection
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.drivers.resp import pack
from redis_locks.events.dispatch import Teller
from redis_locks.inspection import force_release
from redis_locks.protocol import acquire, lease, silent_questions
from redis_locks.protocol.lock_events import LockEvent
from redis_locks.protocol.silent_questions import SKIP_REPLY
from redis_locks.testing.server import EmbeddedServer
from tests.internals.acquire.stage import lose, nothing, once, without_messages
from tests.internals.acquire.turns import Turns
from tests.support import stored
from tests.support.statistics import flush
from tests.support.world import PATIENCE, Observer, Tasks, Threads, granted, keys_of


def test_after_a_short_wait_the_same_lock_is_asked_for_silently_until_it_is_free(
    turns: Turns,
) -> None:
    assert [0, 1, 1] == [turns.wait() for _ in range(3)]
    assert [1, 0] == [turns.take() for _ in range(2)]
    assert [0, 1] == [turns.wait() for _ in range(2)]


def test_after_a_long_wait_it_is_not(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_questions, "BRIEF", 0.0)
    assert [0, 0] == [turns.wait() for _ in range(2)]


def test_who_waits_no_longer_than_the_silence_is_told_at_once(turns: Turns) -> None:
    assert [0, 0, 1] == [
        turns.wait(wait=wait) for wait in (PATIENCE, silent_questions.SILENCE, PATIENCE)
    ]


def test_it_is_held_since_it_was_granted_and_not_since_it_was_asked_for(turns: Turns) -> None:
    assert [0, 1] == [turns.wait(), turns.wait()]
    assert turns.began >= 0


def test_with_a_lease_that_the_silence_would_eat_up_it_is_not(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No lease that a busy machine outlasts.
    monkeypatch.setattr(silent_questions, "LEAST_LEASE_MS", 60_001)
    assert [0, 0] == [turns.wait(), turns.wait()]


def test_another_lock_is_not_asked_for_silently(turns: Turns) -> None:
    other = Lock(f"{turns.lock.name}:other", using=turns.lock.options.using)
    assert [0, 0, 0] == [turns.wait(lock) for lock in (turns.lock, other, turns.lock)]


def test_nor_is_a_permit_or_a_share(turns: Turns) -> None:
    permit = Semaphore(turns.lock.name, 1, using=turns.lock.options.using)
    assert [0, 0, 0] == [turns.wait(lock) for lock in (turns.lock, permit, permit)]


def test_a_silence_in_which_nothing_is_heard_is_the_last_one(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.wait()
    monkeypatch.setattr(silent_questions, "SILENCE", 0.01)
    with without_messages():
        assert [1, 0] == [turns.take() for _ in range(2)]


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda client: client.script_flush(),
        lambda client: client.client_kill_filter(_type="pubsub", skipme=True),
    ],
    ids=["scripts are flushed", "connections are killed"],
)
def test_a_wait_that_began_silently_goes_on_through_a_disturbance(
    turns: Turns, meanwhile: Callable[[redis.Redis], object]
) -> None:
    turns.wait()
    turns.before_release = lambda: meanwhile(turns.client)
    assert turns.wait() == 1


def test_a_server_that_has_forgotten_the_script_and_cannot_say_so_is_asked_aloud(
    turns: Turns,
) -> None:
    turns.wait()
    turns.client.script_flush()
    assert turns.take() == 1


def test_a_grant_that_is_lost_with_its_connection_is_asked_for_again(turns: Turns) -> None:
    turns.wait()
    with once(BlockingLink, "message_after", lambda *_: True, nothing, lose):
        assert turns.take() == 1


def test_a_silent_question_behind_the_dead_is_granted(turns: Turns) -> None:
    turns.wait()
    claim = "0 1 exclusive 60000 nobody 0 1 dead"
    stored.set_line(turns.client, keys_of(turns.lock.name).lock, {"dead": claim})
    assert turns.take() == 1


def test_a_silent_wait_can_be_cancelled(turns: Turns) -> None:
    using = turns.lock.options.using

    def cancel() -> None:
        (waiter,) = inspection.parties(using=using).waiters
        assert inspection.cancel(waiter, using=using)

    turns.wait()
    turns.before_release = cancel
    with pytest.raises(LockError, match="cancelled by an operator"):
        turns.wait()
    assert len(turns.asked) == 1


def want_contention(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver wants to know that somebody else has a lock, and nothing else."""
    for count in ("count", "count_hold"):
        monkeypatch.setattr(Teller, count, lambda _, kind, *__: kind == "contended")


def test_as_long_as_somebody_is_told_who_holds_it_nothing_is_asked_silently(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LockEvent] = []

    async def tell(_: Teller, event: LockEvent, *, task: bool) -> None:
        told.append(event)

    monkeypatch.setattr(Teller, "tell", tell)
    turns.wait()
    want_contention(monkeypatch)
    assert [1, 0, 0] == [turns.wait() for _ in range(3)]
    # The first of them was on its way already.
    assert [False, True, True] == [bool(event.holder) for event in told]


COUNTS: Final = {name: getattr(Teller, name) for name in ("count", "count_hold")}


@pytest.fixture
def with_statistics() -> Iterator[None]:
    with override_settings(REDIS_LOCKS=settings.REDIS_LOCKS | {"STATISTICS": True}):
        yield
        flush()


@pytest.mark.usefixtures("with_statistics")
def test_the_statistics_note_a_few_holders_even_if_each_acquire_reads_something_else(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, really in COUNTS.items():
        monkeypatch.setattr(Teller, count, really)
    name, using = turns.lock.name, turns.lock.options.using
    reads = [[("GET", f"{name}:{number}")] for number in range(20)]
    locks = [Lock(name, lease=60, using=using, read=read) for read in reads]
    assert [1] * 10 == [turns.wait(lock) for lock in locks][10:]


def test_contention_is_counted_once_if_the_grant_is_gone_before_its_read(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, using = turns.lock.name, turns.lock.options.using
    turns.lock = Lock(name, lease=60, using=using, read=[("GET", name)])
    turns.wait()
    counted: list[str] = []
    for count in ("count", "count_hold"):
        monkeypatch.setattr(Teller, count, lambda _, kind, *__: counted.append(kind))
    others = Tasks()
    after: list[Future[None]] = []

    def take_over(_: object) -> None:
        force_release(name, using=using)
        hold = granted(others.acquire(Lock(name, lease=60, using=using)))

        def release() -> None:
            Observer(turns.client).until_waiters(name, 1)
            others.release(hold)

        after.append(Threads().start(release))

    def reads(packet: bytes, *_: object) -> bool:
        return packet == pack(("GET", name))

    with once(BlockingLink, "exchange_all", reads, take_over, lose):
        assert 1 == turns.wait()
    after[0].result(PATIENCE)
    others.close()
    assert 1 == counted.count("contended")


def test_a_receiver_that_takes_longer_than_the_lease_has_the_lock_asked_for_again(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is told, nobody renews what was granted."""
    turns.wait()
    late: list[LockEvent] = []

    async def tell(_: Teller, event: LockEvent, *, task: bool) -> None:
        late.append(event)
        for module in (acquire, lease):
            monkeypatch.setattr(module, "monotonic", lambda: monotonic() + 61)

    monkeypatch.setattr(Teller, "tell", tell)
    want_contention(monkeypatch)
    assert 1 == turns.wait(wait=None)
    assert turns.left > 0
    assert ["contended"] == [event.kind for event in late]


def test_a_server_that_answers_all_the_same_is_asked_again_and_never_silently_any_more(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.wait()
    monkeypatch.setattr(silent_questions, "SKIP_REPLY", pack(("CLIENT", "REPLY", "SKIPPED")))
    assert [1, 0] == [turns.take() for _ in range(2)]
    assert not turns.driver.skips_replies
    monkeypatch.setattr(silent_questions, "SKIP_REPLY", SKIP_REPLY)
    assert [0, 0] == [turns.wait() for _ in range(2)]


def test_a_silence_with_a_server_that_was_never_heard_to_keep_it_ends_its_connection(
    turns: Turns,
) -> None:
    """It may answer yet, and the next question would get that reply."""
    turns.wait()
    (before,) = turns.driver._idle
    with without_messages():
        assert 1 == turns.take()
    assert before.broken
    assert [0, 1] == [turns.wait() for _ in range(2)]
    (proven,) = turns.driver._idle
    with without_messages():
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
        driver = backend_for(server.url).driver
        assert isinstance(driver, BlockingDriver)
        for link in driver._idle:
            link.quick_keys = frozenset(backend_for(server.url).keys(name))
    started = monotonic()
    with pytest.raises(LockBackendError):
        lock.acquire(wait=PATIENCE)
    assert monotonic() - started < PATIENCE / 2
