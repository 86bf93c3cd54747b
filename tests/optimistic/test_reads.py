"""`read=`: what a transaction reads travels with its WATCH, so it takes two round trips."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
from django.conf import settings

from redis_locks import optimistic
from tests.faults.proxy import Proxy
from tests.optimistic.sides import Pipe, Side


class Moving:
    """A body that adds to what `read=` found, after `meanwhile` with the attempt's number."""

    def __init__(self, key: str, meanwhile: Any = None) -> None:
        self.key = key
        self.meanwhile = meanwhile
        self.found: list[Any] = []

    async def __call__(self, pipe: Pipe) -> int:
        self.found.append(pipe.raw.read)
        if self.meanwhile is not None:
            self.meanwhile(len(self.found))
        pipe.multi()
        balance = int(pipe.raw.read[0] or 0) + 1
        pipe.set(self.key, balance)
        return balance


def reads(client: redis.Redis) -> int:
    return int(client.info("stats")["total_reads_processed"])


@pytest.mark.parametrize("given", [True, False], ids=["given-id", "no-id"])
def test_a_transaction_without_a_conflict_takes_two_round_trips(
    side: Side, client: redis.Redis, name: str, given: bool
) -> None:
    def transfer(number: int) -> int:
        operation_id = f"{name}:{number}" if given else None
        found: int = side.run(Moving(name), name, read=[("GET", name)], operation_id=operation_id)
        return found

    transfer(1)  # opens the connection
    before = reads(client)
    assert 2 == transfer(2)
    # Our own question is one.
    assert 2 == reads(client) - before - 1


def test_the_replies_are_those_of_redis_py(side: Side, client: redis.Redis, name: str) -> None:
    client.hset(name, mapping={"money": 5, "owner": "alice"})
    body = Moving(f"{name}:sum")
    commands = [("GET", f"{name}:sum"), ("hgetall", name), (b"EXISTS", name, f"{name}:none")]
    assert 1 == side.run(body, name, read=commands)
    assert [[None, {b"money": b"5", b"owner": b"alice"}, 1]] == body.found
    text = Moving(f"{name}:sum")
    with redis.Redis.from_url(settings.REDIS_URL, decode_responses=True) as decoding:
        assert 2 == side.run(text, name, read=commands[:2], using=decoding)
    assert [["1", {"money": "5", "owner": "alice"}]] == text.found


def test_after_a_conflict_it_is_read_again(side: Side, client: redis.Redis, name: str) -> None:
    body = Moving(name, lambda attempt: client.incrby(name, 10) if attempt == 1 else None)
    assert 11 == side.run(body, name, read=[("GET", name)])
    assert [[None], [b"10"]] == body.found
    assert b"11" == client.get(name)


@pytest.mark.verdict
@pytest.mark.parametrize("late", [False, True], ids=["reply", "request"])
@pytest.mark.parametrize("given", [True, False], ids=["given-id", "no-id"])
def test_money_moves_once_whatever_is_lost(
    side: Side, client: redis.Redis, proxy: Proxy, name: str, late: bool, given: bool
) -> None:
    proxy.lose(1, late=late)
    operation_id = name if given else None
    options: Any = {"read": [("GET", name)], "operation_id": operation_id, "using": proxy.url}
    assert 1 == side.run(Moving(name), name, **options)
    assert (1, b"1") == (proxy.lost, client.get(name))


def test_a_repeated_operation_is_known_although_its_reads_fail_now(
    side: Side, client: redis.Redis, name: str
) -> None:
    options: Any = {"read": [("GET", name)], "operation_id": name}
    assert 1 == side.run(Moving(name), f"{name}:watched", **options)
    client.delete(name)
    client.hset(name, "a", 1)
    assert 1 == side.run(Moving(name), f"{name}:watched", **options)


def test_an_error_of_a_read_reaches_the_caller_and_leaves_the_connection_usable(
    side: Side, client: redis.Redis, name: str
) -> None:
    client.hset(name, "a", 1)
    body = Moving(name)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        side.run(body, name, read=[("GET", name), ("HGET", name, "a")])
    assert [] == body.found
    client.delete(name)
    assert 1 == side.run(Moving(name), name, read=[("GET", name)])


def test_words_are_templates_over_the_parameters(client: redis.Redis, name: str) -> None:
    @optimistic(
        watch=("{bank}:{sender}", "{bank}:{recipient}"),
        read=[("HGET", "{bank}:{sender}", "money"), ("HEXISTS", "{bank}:{recipient}", "money")],
    )
    def transfer(pipe: Any, bank: str, sender: int, recipient: int, *, cents: int) -> bool:
        money, known = pipe.read
        if not known or int(money) < cents:
            return False
        pipe.multi()
        pipe.hincrby(f"{bank}:{sender}", "money", -cents)
        pipe.hincrby(f"{bank}:{recipient}", "money", cents)
        return True

    client.hset(f"{name}:1", "money", 10)
    client.hset(f"{name}:2", "money", 0)
    assert [True, False, False] == [
        transfer(name, 1, 2, cents=7),
        transfer(name, 1, 2, cents=7),
        transfer(name, 1, 3, cents=1),
    ]
    assert [b"3", b"7"] == [client.hget(f"{name}:{number}", "money") for number in (1, 2)]


def test_a_callable_may_name_any_number_of_commands(client: redis.Redis, name: str) -> None:
    @optimistic(watch=lambda keys: keys, read=lambda keys: [("GET", key) for key in keys])
    async def total(pipe: Any, keys: list[str]) -> int:
        pipe.multi()
        pipe.set(f"{name}:total", found := sum(map(int, pipe.read)))
        return int(found)

    keys = [f"{name}:{number}" for number in range(5)]
    client.mset(dict.fromkeys(keys, 3))
    assert 15 == asyncio.run(total(keys))
    assert b"15" == client.get(f"{name}:total")


def work(pipe: Any, account: int) -> None: ...


@pytest.mark.parametrize("word", ["{pipe}", "{"])
def test_a_template_that_does_not_fit_is_refused_when_decorating(word: str) -> None:
    with pytest.raises(ValueError, match=r"^read: "):
        optimistic(watch="a", read=[("GET", word)])(work)
