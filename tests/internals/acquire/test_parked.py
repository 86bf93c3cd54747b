"""The server answers reads along with a silent question once the lock is ours, and not before."""

from __future__ import annotations

from itertools import count
from threading import Event
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.drivers.blocking import BlockingLink
from redis_locks.drivers.resp import pack
from redis_locks.events.dispatch import Teller
from redis_locks.protocol import silent_questions
from tests.internals.acquire.stage import nothing, once
from tests.internals.acquire.turns import Turns
from tests.support import stored
from tests.support.world import PATIENCE, Tasks, Threads, until


@pytest.fixture
def key(turns: Turns) -> str:
    """Of a counter that whoever holds the lock of `turns` counts up just before it hands it on."""
    key = f"data:{turns.lock.name}"
    turns.before_release = lambda: turns.client.incr(key)
    turns.client.set(key, 1, ex=60)
    turns.lock = Lock(
        turns.lock.name,
        lease=60,
        using=turns.lock.options.using,
        read=[("GET", key), ("STRLEN", key)],
    )
    return key


@pytest.fixture
def practised(turns: Turns, key: str) -> None:
    """Let the server be known to keep silent, and the connection to listen for its turn."""
    for _ in range(3):
        turns.wait()


def test_it_is_read_without_a_round_trip_of_its_own(turns: Turns, key: str) -> None:
    # Two waits, as the first proves that the server keeps silent, the second listens for its turn,
    # too.
    assert [0, 1, 1] == [turns.wait() for _ in range(3)]
    turns.trips = 0
    assert [1, 1] == [turns.wait(), turns.wait()]
    assert 4 == turns.trips  # two of them releases
    assert [[str(number).encode(), 1] for number in range(2, 7)] == turns.read


@pytest.mark.usefixtures("practised")
def test_nor_if_the_lock_is_free(turns: Turns, key: str) -> None:
    turns.trips = 0
    assert 1 == turns.take()
    assert 2 == turns.trips
    assert [b"4", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
def test_what_was_read_before_the_lock_was_held_is_not_believed(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_questions, "SILENCE", 0.02)
    before = turns.before_release
    asked_again = Threads().start(until, lambda: turns.trips >= 2)

    def late() -> None:
        asked_again.result(PATIENCE)
        before()

    turns.trips, turns.before_release = 0, late
    assert 1 == turns.wait()
    assert [b"5", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
def test_a_message_that_comes_just_after_the_server_gave_up_is_believed_and_nothing_else(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_trip = BlockingLink.round_trip

    async def late(link: BlockingLink, commands: bytes, *args: Any) -> list[Any]:
        replies = await round_trip(link, commands, *args)
        if commands.startswith(silent_questions.SKIP_REPLY):
            assert replies[0] is not None
            replies = [None, b"0", 1]
        return replies

    monkeypatch.setattr(BlockingLink, "round_trip", late)
    assert 1 == turns.wait()
    assert [b"5", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
def test_what_was_read_when_something_else_was_told_is_not_believed(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to look for a deadlock, which ends the wait for its turn.

    It is handed the lock before it wakes up.
    """
    hand_on = turns.before_release
    handed_on = Event()

    def tell_first() -> None:
        (lock,) = turns.client.scan_iter(match=f"*:lock:{turns.lock.name}")
        (token,) = stored.line(turns.client, lock)
        claim = stored.claim_of_waiter(turns.client, lock, token.decode())
        (channel,) = turns.client.pubsub_channels("*:grants:" + claim.split()[4].decode())
        assert turns.client.publish(channel, token + b" 0 1")
        turn = lock.replace(b"lock:", b"turn:").replace(turns.lock.name.encode(), token)
        assert turns.client.rpush(turn, "0")
        hand_on()
        handed_on.set()

    round_trip = BlockingLink.round_trip

    async def slow(link: BlockingLink, commands: bytes, *args: Any) -> list[Any]:
        if not commands.startswith(silent_questions.SKIP_REPLY):
            return await round_trip(link, commands, *args)
        link._socket.sendall(commands)
        handed_on.wait(PATIENCE)
        until(lambda: turns.client.get(f"{turns.lock.name}:over"))
        return await round_trip(link, b"", *args)

    turns.before_release = tell_first
    monkeypatch.setattr(BlockingLink, "round_trip", slow)
    release = Tasks.release

    def released(tasks: Tasks, hold: Any) -> None:
        release(tasks, hold)
        turns.client.set(f"{turns.lock.name}:over", 1, px=10_000)

    monkeypatch.setattr(Tasks, "release", released)
    turns.wait()
    assert [b"5", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
def test_an_answer_that_was_not_to_come_ends_the_connection(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (link,) = turns.driver._idle
    with monkeypatch.context() as patched:
        patched.setattr(silent_questions, "SKIP_REPLY", pack(("ECHO", "no silence")))
        turns.take()
    assert link.broken
    assert not turns.driver.skips_replies
    assert [b"4", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
@pytest.mark.parametrize("refused", ["turn", "silence"])
def test_a_refusal_ends_the_connection_and_this_way(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """After it, replies may come of which nobody knows to what."""
    (link,) = turns.driver._idle
    with monkeypatch.context() as patched:
        if refused == "turn":
            patched.setattr(silent_questions, "turn_key", lambda *_: turns.lock.name.encode())
            turns.client.set(turns.lock.name, "of another type", px=60_000)
        else:
            wrong = pack(("CLIENT", "REPLY", "SKIPPED"))
            patched.setattr(silent_questions, "SKIP_REPLY", wrong)
        assert turns.take() >= (refused == "turn")
    assert link.broken
    assert not turns.driver.parks
    assert [b"4", 1] == turns.read[-1]
    assert 0 == turns.wait()
    assert [[b"5", 1], [b"6", 1]] == [turns.read[-1], (turns.wait(), turns.read[-1])[1]]


@pytest.mark.usefixtures("practised")
def test_who_is_interrupted_meanwhile_leaves_nothing_behind(turns: Turns, key: str) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    def is_it(commands: bytes, *_: object) -> bool:
        return commands.startswith(silent_questions.SKIP_REPLY)

    with (
        once(BlockingLink, "exchange_all", is_it, nothing, interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        turns.lock.acquire()
    turns.wait()
    assert [b"5", 1] == turns.read[-1]


@pytest.mark.usefixtures("practised")
def test_a_connection_that_breaks_meanwhile_is_replaced(turns: Turns, key: str) -> None:
    done = count()

    def kill_once() -> None:
        turns.client.incr(key)
        if next(done) == 0:
            turns.client.client_kill_filter(_type="pubsub", skipme=True)

    turns.before_release = kill_once
    assert 1 == turns.wait()
    assert [b"5", 1] == turns.read[-1]


def test_before_there_is_a_connection_to_read_on_a_free_lock_is_not_waited_for(
    turns: Turns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waited for without `read=` it was until now, and so briefly that it is asked for silently."""
    turns.wait(Lock(turns.lock.name, lease=60, using=turns.lock.options.using))
    waited: list[float] = []
    monkeypatch.setattr(
        Teller, "count_hold", lambda _, kind, seconds, __: waited.append(seconds) or False
    )
    turns.take()
    assert 0.0 == waited[0]
    assert [b"2", 1] == turns.read[-1]
