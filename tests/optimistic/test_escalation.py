"""After some conflicts an explicit lock keeps the others away; how many there were is counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.db import transaction

from redis_locks import LockTimeout, TooMuchContention, inspection
from redis_locks.testing import held
from redis_locks.testing.server import EmbeddedServer
from tests.optimistic.sides import Adding, BlockingSide, Side
from tests.support.optimistic import keep_conflicts_of
from tests.support.world import Observer


def rate_of(side: Side, key: str, **options: Any) -> tuple[int, int]:
    (found,) = [rate for rate in side.conflicts(limit=1000, **options) if rate.key == key]
    return found.attempts, found.conflicts


def test_the_lock_is_taken_after_so_many_conflicts_and_released_in_the_end(
    side: Side, client: redis.Redis, server_side: Observer, name: str
) -> None:
    held = []

    def meanwhile(attempt: int) -> None:
        held.append(server_side.holder(f"{name}:lock") is not None)
        if attempt < 4:
            client.incr(name)

    body = Adding(name, 10, meanwhile)
    assert 13 == side.run(body, name, escalate_to=f"{name}:lock", escalate_after=2)
    # The third conflict happened under the lock: an optimistic peer does not ask for it.
    assert [False, False, True, True] == held
    assert set() == server_side.left_of(f"{name}:lock")


@pytest.mark.parametrize("ending", ["error", "conflicts"])
def test_the_lock_is_released_when_the_transaction_fails(
    side: Side, client: redis.Redis, server_side: Observer, name: str, ending: str
) -> None:
    def meanwhile(attempt: int) -> None:
        if attempt == 5 and ending == "error":
            raise ZeroDivisionError
        client.incr(name)

    with pytest.raises((ZeroDivisionError, TooMuchContention)):
        side.run(Adding(name, 10, meanwhile), name, escalate_to=name)
    assert set() == server_side.left_of(name)
    assert str(4 if ending == "error" else 5).encode() == client.get(name)


@pytest.mark.django_db(transaction=True)
def test_the_lock_is_no_concern_of_a_database_transaction(
    client: redis.Redis, server_side: Observer, name: str
) -> None:
    def meanwhile(attempt: int) -> None:
        if attempt == 1:
            client.incr(name)

    with transaction.atomic():
        body = Adding(name, 10, meanwhile)
        BlockingSide().run(body, name, escalate_to=f"{name}:lock", escalate_after=1)
        assert 2 == body.calls
        assert set() == server_side.left_of(f"{name}:lock")


def test_a_lock_that_is_not_to_be_had_is_contention(
    side: Side, client: redis.Redis, name: str
) -> None:
    body = Adding(name, 10, lambda _: client.incr(name))
    with (
        held(name),
        pytest.raises(TooMuchContention, match=r"did not become free within 0\.05 s") as raised,
    ):
        side.run(body, name, escalate_to=name, wait=0.05)
    assert isinstance(raised.value.__cause__, LockTimeout)
    assert (2, b"2") == (body.calls, client.get(name))


def test_a_lock_lost_meanwhile_does_not_hide_that_the_transaction_is_applied(
    side: Side, client: redis.Redis, name: str
) -> None:
    def meanwhile(attempt: int) -> None:
        if attempt <= 2:
            client.incr(name)
        else:
            inspection.force_release(name)

    assert 12 == side.run(Adding(name, 10, meanwhile), name, escalate_to=name)


def test_the_lock_says_what_it_is_held_for(side: Side, client: redis.Redis, name: str) -> None:
    labels = []

    def meanwhile(attempt: int) -> None:
        if attempt <= 2:
            client.incr(name)
        else:
            labels.append(str(inspection.lock(name)))

    side.run(Adding(name, 10, meanwhile), name, escalate_to=name)
    assert "Side" in labels[0]


def test_everybody_gets_through_a_hot_key(side: Side, client: redis.Redis, name: str) -> None:
    def add() -> None:
        for _ in range(10):
            side.run(Adding(name), name, attempts=100, escalate_to=name)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(add) for _ in range(6)]:
            done.result()
    assert b"60" == client.get(name)
    attempts, met = rate_of(side, name)
    assert 60 == attempts - met


def test_conflicts_are_counted_for_each_watched_key(
    side: Side, client: redis.Redis, name: str
) -> None:
    other = f"{name}:other"
    disturbed = Adding(name, 10, lambda attempt: client.incr(name) if attempt <= 3 else None)
    side.run(disturbed, name, other, escalate_to=name)
    side.run(Adding(other), other, escalate_to=name)
    assert (4, 3) == rate_of(side, name)
    assert (5, 3) == rate_of(side, other)
    (rate,) = [rate for rate in side.conflicts(limit=1000) if rate.key == other]
    assert 0.6 == rate.rate


def test_conflicts_of_a_transaction_that_gave_up_are_counted(
    side: Side, client: redis.Redis, name: str
) -> None:
    with pytest.raises(TooMuchContention):
        side.run(Adding(name, 10, lambda _: client.incr(name)), name, escalate_to=name)
    assert (5, 5) == rate_of(side, name)


def test_nothing_is_counted_without_escalation(side: Side, name: str) -> None:
    side.run(Adding(name), name)
    assert name not in [rate.key for rate in side.conflicts(limit=1000)]


def test_the_keys_with_the_most_conflicts_are_kept_for_an_hour_at_most(
    private_server: EmbeddedServer, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_conflicts_of(monkeypatch, 3)
    using = private_server.url
    with private_server.client() as client:
        for number in range(1, 6):
            key = f"key-{number}"
            body = Adding(key, 1, lambda attempt, n=number: attempt < n and client.incr(key))  # noqa: B023
            side.run(body, key, using=using, escalate_to="all", attempts=10)
        kept = [(rate.key, rate.conflicts) for rate in side.conflicts(using=using)]
        assert [("key-5", 4), ("key-4", 3), ("key-3", 2)] == kept
        assert kept[:2] == [
            (rate.key, rate.conflicts) for rate in side.conflicts(using=using, limit=2)
        ]
        assert 3590 < client.ttl("redis_locks:conflicts") <= 3600
        client.expire("redis_locks:conflicts", 100)
        side.run(Adding("key-5"), "key-5", using=using, escalate_to="all")
        assert client.ttl("redis_locks:conflicts") <= 100
