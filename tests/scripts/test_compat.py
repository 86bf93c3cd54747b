"""Each compat script called by hand, every branch; and its header held against its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redis_locks.compat import commands
from tests.support.keys import compat_keys

GRANTED, OUT = 0, -1
CONFIRM_MS = 2_000
KEPT_MS = 4_000
GIVEN = "t"  # of the user's own


class Bench:
    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client: Any = client
        self.keys = compat_keys(name.encode(), cluster=False)
        self._listeners: list[Any] = []

    def acquire(
        self, waiter: str, *, token: str | None = None, timeout: object = "", stay: bool = False
    ) -> int:
        """Without `token`, the waiter's own; its channel is its name."""
        argv = (token or waiter, waiter, timeout, f"channel-{waiter}", int(stay))
        return self.client.eval(commands.ACQUIRE.text, len(self.keys), *self.keys, *argv)

    def queue_up(self, *waiters: str, listen: bool = True) -> None:
        for waiter in waiters:
            if listen:
                self.listen(waiter)
            assert self.acquire(waiter, stay=True) > 0

    def release(self, token: str) -> int:
        return self.client.eval(commands.RELEASE.text, len(self.keys), *self.keys, token)

    def listen(self, waiter: str) -> Any:
        listener = self.client.pubsub()
        listener.subscribe(f"channel-{waiter}")
        assert listener.get_message(timeout=5)["type"] == "subscribe"
        self._listeners.append(listener)
        return listener

    def holder(self) -> str | None:
        found = self.client.get(self.keys.lock)
        return found and found.decode()

    def queued(self) -> list[str]:
        queue = [each.decode() for each in self.client.zrange(self.keys.queue, 0, -1)]
        claims = {each.decode() for each in self.client.hkeys(self.keys.claims)}
        assert set(queue) == claims
        return queue

    def left(self) -> set[str]:
        return {field for field, key in self.keys._asdict().items() if self.client.exists(key)}

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for key in self.keys[1:]:
            assert -1 != self.client.pttl(key), f"{key!r} never expires"


@pytest.fixture
def bench(client: redis.Redis, name: str) -> Iterator[Bench]:
    made = Bench(client, name)
    yield made
    made.close()


def test_the_same_acquire_with_a_token_of_the_user_s_is_granted_again(bench: Bench) -> None:
    assert [GRANTED] * 2 == [bench.acquire("a", token=GIVEN) for _ in range(2)]
    assert bench.acquire("b", token=GIVEN) == OUT
    assert 0 < bench.client.pttl(bench.keys.grant) <= CONFIRM_MS


def test_who_stays_learns_its_place_and_keeps_it(bench: Bench) -> None:
    bench.acquire("a")
    assert [1, 2, 1, 2] == [bench.acquire(waiter, stay=True) for waiter in "bcbc"]
    assert ["b", "c"] == bench.queued()
    assert 0 < bench.client.pttl(bench.keys.queue) <= KEPT_MS


def test_what_was_handed_over_expires_soon_unless_it_is_taken(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b")
    bench.release("a")
    assert 0 < bench.client.pttl(bench.keys.lock) <= CONFIRM_MS
    assert GRANTED == bench.acquire("b", stay=True)
    assert -1 == bench.client.pttl(bench.keys.lock)


def test_a_token_of_the_user_s_is_handed_over_to_one_waiter_only(bench: Bench) -> None:
    bench.acquire("a", token=GIVEN)
    for waiter in "bc":
        bench.listen(waiter)
        assert bench.acquire(waiter, token=GIVEN, stay=True)
    bench.release(GIVEN)
    assert GIVEN == bench.holder()
    assert 1 == bench.acquire("c", token=GIVEN, stay=True)
    assert GRANTED == bench.acquire("b", token=GIVEN, stay=True)
    assert 1 == bench.acquire("c", token=GIVEN, stay=True)


def test_release_frees_the_lock_when_only_the_dead_wait(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("dead", "gone", listen=False)
    assert 1 == bench.release("a")
    assert set() == bench.left()


MANY_DEAD = 1_500


def crowd_of_dead(bench: Bench, *living: str) -> None:
    """Let somebody hold the lock, and living waiters wait behind many dead ones."""
    bench.acquire("a")
    for number in range(MANY_DEAD):
        bench.acquire(f"dead{number}", stay=True)
    bench.queue_up(*living)


def test_a_dead_last_waiter_does_not_hide_the_living_before_it(bench: Bench) -> None:
    crowd_of_dead(bench)
    listener = bench.listen("b")
    for waiter in ("b", "late", "later"):
        bench.acquire(waiter, stay=True)
    bench.release("a")
    assert b"b" == listener.get_message(timeout=5)["data"]
    assert bench.holder() is None


@pytest.mark.parametrize("stay", [False, True])
def test_a_newcomer_gets_the_lock_once_the_dead_are_gone(bench: Bench, stay: bool) -> None:
    crowd_of_dead(bench)
    bench.release("a")
    asked = 1
    while GRANTED != bench.acquire("newcomer", stay=stay):
        asked += 1
    assert 5 <= asked <= MANY_DEAD / 150
    assert ("newcomer", []) == (bench.holder(), bench.queued())


def test_one_that_leaves_asks_the_last_to_go_on(bench: Bench) -> None:
    crowd_of_dead(bench, "quitter")
    listener = bench.listen("b")
    bench.acquire("b", stay=True)
    bench.client.delete(bench.keys.lock)
    assert OUT == bench.acquire("quitter")
    assert b"b" == listener.get_message(timeout=5)["data"]


def test_a_waiter_that_cannot_listen_is_handed_the_lock_all_the_same(bench: Bench) -> None:
    bench.acquire("a")
    keys = (len(bench.keys), *bench.keys)
    assert 1 == bench.client.eval(commands.ACQUIRE.text, *keys, "b", "b", "", "-", 1)
    bench.release("a")
    assert "b" == bench.holder()


def test_a_newcomer_takes_a_free_lock_for_which_only_the_dead_wait(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("dead", listen=False)
    bench.client.delete(bench.keys.lock)
    assert GRANTED == bench.acquire("newcomer", stay=True)
    assert ("newcomer", []) == (bench.holder(), bench.queued())


def test_a_token_may_hold_any_bytes(bench: Bench) -> None:
    token = b"\x00 \n%d\xff"
    bench.acquire("a")
    bench.listen("b")
    argv = (token, "b", "", "channel-b", 1)
    assert 1 == bench.client.eval(commands.ACQUIRE.text, len(bench.keys), *bench.keys, *argv)
    bench.release("a")
    assert token == bench.client.get(bench.keys.lock)


@pytest.mark.parametrize(
    ("key", "queue"),
    [
        (b"x", b"{x}:redis_locks:line"),
        (b"a{b}c", b"a{b}c:redis_locks:line"),
        (b"a{b", b"{a{b}:redis_locks:line"),
    ],
)
def test_on_a_cluster_the_companions_share_the_key_s_slot(key: bytes, queue: bytes) -> None:
    from redis.crc import key_slot

    keys = compat_keys(key, cluster=True)
    assert queue == keys.queue
    assert 1 == len({key_slot(each) for each in keys})


def test_a_key_that_leaves_no_slot_for_companions_is_refused() -> None:
    with pytest.raises(ValueError, match="remove the brace"):
        compat_keys(b"a}b", cluster=True)
