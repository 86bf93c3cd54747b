"""An EXEC whose answer was lost is applied once; redis-py alone would apply it twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks import LockBackendError
from tests.faults.proxy import Proxy
from tests.optimistic.sides import Adding, Pipe, Side
from tests.support.keys import operation_key
from tests.support.optimistic import outcomes_are_late


def test_redis_pys_own_transaction_applies_twice(
    client: redis.Redis, proxy: Proxy, name: str
) -> None:
    """Why all this is needed: the failed EXEC looks like a conflict, so the function runs again."""

    def add(pipe: Any) -> None:
        found = int(pipe.get(name) or 0)
        pipe.multi()
        pipe.set(name, found + 100)

    with redis.Redis.from_url(proxy.url) as through:
        proxy.lose(1)
        through.transaction(add, name)
    assert 1 == proxy.lost
    assert b"200" == client.get(name)


def test_redis_pys_own_retry_applies_a_multi_exec_twice(
    client: redis.Redis, proxy: Proxy, name: str
) -> None:
    retried = {"retry": Retry(NoBackoff(), 3), "retry_on_error": [redis.ConnectionError]}
    with redis.Redis.from_url(proxy.url, **retried) as through:
        proxy.lose(1)
        with through.pipeline(transaction=True) as pipe:
            pipe.incrby(name, 100)
            pipe.execute()
    assert 1 == proxy.lost
    assert b"200" == client.get(name)


@pytest.mark.parametrize("given", [True, False], ids=["given-id", "no-id"])
@pytest.mark.parametrize("losses", [1, 2])
def test_a_transaction_whose_reply_was_lost_is_applied_once(
    side: Side, client: redis.Redis, proxy: Proxy, name: str, losses: int, given: bool
) -> None:
    body = Adding(name, 100)
    proxy.lose(1, losses=losses)
    assert 100 == side.run(body, name, using=proxy.url, operation_id=name if given else None)
    assert (1, 1) == (proxy.lost, body.calls)
    assert b"100" == client.get(name)


def test_the_only_attempt_finds_out_that_it_was_applied(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    proxy.lose(1)
    assert 100 == side.run(Adding(name, 100), name, using=proxy.url, attempts=1)
    assert (1, b"100") == (proxy.lost, client.get(name))


@pytest.mark.parametrize("losses", [1, 2])
def test_a_transaction_whose_exec_never_arrived_is_applied_by_a_later_attempt(
    side: Side, client: redis.Redis, proxy: Proxy, name: str, losses: int
) -> None:
    body = Adding(name, 100)
    proxy.lose(1, losses=losses, late=True)
    assert 100 == side.run(body, name, using=proxy.url)
    assert (losses, losses + 1) == (proxy.lost, body.calls)
    assert b"100" == client.get(name)


def test_an_exec_that_arrives_after_its_repetition_is_refused(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    body = Adding(name, 100)
    proxy.lose(1, late=True)
    # On another key, so that only the operation's key can stop the late one.
    watched = f"{name}:watched"
    assert 100 == side.run(body, watched, using=proxy.url)
    assert 2 == body.calls
    proxy.deliver()
    assert b"100" == client.get(name)


def test_an_exec_that_arrives_after_the_call_gave_up_is_refused(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    proxy.lose(1, late=True)
    with pytest.raises(LockBackendError, match="Nothing was written"):
        side.run(Adding(name, 100), f"{name}:watched", using=proxy.url, attempts=1)
    proxy.deliver()
    assert not client.exists(name)


def test_an_operation_given_up_may_be_called_again(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    proxy.lose(1, late=True)
    with pytest.raises(LockBackendError):
        side.run(Adding(name, 100), name, using=proxy.url, attempts=1, operation_id=name)
    assert 100 == side.run(Adding(name, 100), name, operation_id=name)
    assert b"100" == client.get(name)


def test_a_server_that_stays_away_leaves_it_open_and_says_so(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    proxy.lose(1, then_to="nowhere")
    with pytest.raises(LockBackendError, match=f"operation_id='{name}'.*applied once at most"):
        side.run(Adding(name, 100), name, using=proxy.url, attempts=2, operation_id=name)
    assert b"100" == client.get(name)
    assert 100 == side.run(Adding(name, 100), name, operation_id=name)
    assert b"100" == client.get(name)


def test_a_server_that_is_not_there_has_nothing_written(side: Side, name: str) -> None:
    using = "unix:///nonexistent/redis.sock"
    with pytest.raises(LockBackendError, match="Nothing was written"):
        side.run(Adding(name), name, using=using, attempts=2)
    with pytest.raises(LockBackendError, match="does not answer"):
        side.conflicts(using=using)


def test_a_connection_lost_while_reading_is_no_conflict_and_tried_again(
    side: Side, client: redis.Redis, name: str
) -> None:
    async def body(pipe: Pipe) -> int:
        calls.append(1)
        if len(calls) == 1:
            own = client.client_id()
            for each in client.client_list():
                if int(each["id"]) != own and "P" not in each["flags"]:
                    client.client_kill_filter(_id=each["id"], skipme=False)
        found = int(await pipe.read("get", name) or 0)
        pipe.multi()
        pipe.incr(name)
        return found + 1

    calls: list[int] = []
    assert 1 == side.run(body, name, escalate_to=name, escalate_after=1)
    assert 2 == len(calls)
    (rate,) = [rate for rate in side.conflicts(limit=1000) if rate.key == name]
    assert 0 == rate.conflicts


def test_a_repeated_operation_returns_what_the_first_call_returned(
    side: Side, client: redis.Redis, name: str
) -> None:
    async def body(pipe: Pipe) -> dict[str, Any]:
        calls.append(1)
        pipe.multi()
        pipe.incr(name)
        return {"balance": 1.5, "notes": ["a", None], "by": name}

    calls: list[int] = []
    first = side.run(body, name, operation_id=f"{{odd}} {name}")
    assert {"balance": 1.5, "notes": ["a", None], "by": name} == first
    assert first == side.run(body, name, operation_id=f"{{odd}} {name}")
    assert (1, b"1") == (len(calls), client.get(name))


def test_one_of_two_simultaneous_calls_of_an_operation_is_applied(
    side: Side, client: redis.Redis, name: str
) -> None:
    together = threading.Barrier(2, timeout=10)

    def body_of(value: str) -> Callable[[Pipe], Any]:
        calls: list[int] = []

        async def body(pipe: Pipe) -> str:
            calls.append(1)
            if len(calls) == 1:
                together.wait()
            pipe.multi()
            pipe.rpush(name, value)
            return value

        return body

    others = type(side)()  # a loop of its own: the barrier blocks it
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(each.run, body_of(value), f"{name}:watched", operation_id=name)
            for each, value in ((side, "a"), (others, "b"))
        ]
        values = [job.result() for job in jobs]
    others.world.close()
    assert values[0] == values[1]
    assert [values[0].encode()] == client.lrange(name, 0, -1)


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, b"bytes", object(), float("nan")])
def test_a_value_that_would_not_come_back_the_same_is_refused_before_anything_is_written(
    side: Side, client: redis.Redis, name: str, value: Any
) -> None:
    async def body(pipe: Pipe) -> Any:
        pipe.multi()
        pipe.set(name, 1)
        return value

    with pytest.raises(TypeError, match="JSON"):
        side.run(body, name, operation_id=name)
    assert not client.exists(name)
    # Without an id it need not be stored, so it may be anything.
    assert value is side.run(body, name)


def test_operations_are_remembered_for_a_while_only(
    side: Side, client: redis.Redis, name: str, operations: Callable[[], list[bytes]]
) -> None:
    side.run(Adding(name), name)
    (automatic,) = operations()
    assert 0 < client.pttl(automatic) <= 30_000
    side.run(Adding(name), name, operation_id=name, remember=7200)
    given = operation_key("redis_locks", name, name)
    assert 7_190_000 < client.pttl(given) <= 7_200_000


def test_an_outcome_that_may_have_been_forgotten_is_not_guessed(
    side: Side, client: redis.Redis, proxy: Proxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation's key has ended meanwhile: applying again could be the second time."""
    outcomes_are_late(monkeypatch, 3601)
    proxy.lose(1, late=True)
    with pytest.raises(LockBackendError, match="nor whether it is applied"):
        side.run(Adding(name), name, using=proxy.url, operation_id=name)
    assert not client.exists(name)


@pytest.mark.parametrize("ending", ["nothing to write", "error"])
def test_an_exec_on_its_way_is_stopped_before_the_function_ends_the_call(
    side: Side, client: redis.Redis, proxy: Proxy, name: str, ending: str
) -> None:
    """What the call reports is what happens, also to the EXEC that went unanswered."""

    async def body(pipe: Pipe) -> str:
        calls.append(1)
        if len(calls) == 2:
            assert ending != "error", "refused"
            return ending
        pipe.multi()
        pipe.set(name, "late")
        return "written"

    calls: list[int] = []
    proxy.lose(1, late=True)
    if ending == "error":
        with pytest.raises(AssertionError, match="refused"):
            side.run(body, f"{name}:watched", using=proxy.url)
    else:
        assert ending == side.run(body, f"{name}:watched", using=proxy.url)
    proxy.deliver()
    assert not client.exists(name)


def test_an_exec_on_its_way_is_stopped_although_an_earlier_call_had_given_up(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    for _ in range(2):
        proxy.lose(1, late=True)
        with pytest.raises(LockBackendError, match="Nothing was written"):
            side.run(Adding(name), f"{name}:w", using=proxy.url, attempts=1, operation_id=name)
    proxy.deliver()
    assert not client.exists(name)


def test_replies_that_were_lost_are_an_error_that_says_that_it_was_applied(
    side: Side, client: redis.Redis, proxy: Proxy, name: str
) -> None:
    proxy.lose(1)
    with pytest.raises(LockBackendError, match="has applied the transaction, but its replies"):
        side.run(Adding(name, 100), name, using=proxy.url, replies=True)
    assert (1, b"100") == (proxy.lost, client.get(name))
