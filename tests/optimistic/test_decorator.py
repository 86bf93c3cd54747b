"""`@optimistic`: what is watched, what the function looks like from outside, what is refused."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
import redis

from redis_locks import LockTimeout, TooMuchContention, optimistic, redis_lock
from redis_locks.testing import held
from tests.elsewhere import is_free


def test_a_decorated_function_is_called_without_the_pipeline(
    client: redis.Redis, name: str
) -> None:
    @optimistic(watch=("{bank}:{sender}", "{bank}:{recipient}"))
    def transfer(pipe: Any, bank: str, sender: int, recipient: int, *, cents: int = 5) -> int:
        """Move money."""
        balance = int(pipe.get(f"{bank}:{sender}"))
        if not touched:
            touched.append(client.incr(f"{bank}:{recipient}"))
        pipe.multi()
        pipe.decrby(f"{bank}:{sender}", cents)
        pipe.incrby(f"{bank}:{recipient}", cents)
        return balance - cents

    touched: list[int] = []
    client.mset({f"{name}:1": 100, f"{name}:2": 0})
    assert 93 == transfer(name, 1, recipient=2, cents=7)
    assert [1] == touched
    assert [b"93", b"8"] == client.mget(f"{name}:1", f"{name}:2")
    assert ["bank", "sender", "recipient", "cents"] == list(inspect.signature(transfer).parameters)
    assert ("transfer", "Move money.") == (transfer.__name__, transfer.__doc__)


def test_a_coroutine_function_stays_one(client: redis.Redis, name: str) -> None:
    @optimistic(watch="{key}", operation_id="{key}:{number}")
    async def add(pipe: Any, key: str, number: int) -> int:
        found = int(await pipe.get(key) or 0)
        pipe.multi()
        pipe.incrby(key, number)
        return found + number

    async def main() -> list[int]:
        return [await add(name, 1), await add(name, number=2), await add(name, 1)]

    assert inspect.iscoroutinefunction(add)
    assert [1, 3, 1] == asyncio.run(main())
    assert b"3" == client.get(name)


def test_a_callable_may_name_any_number_of_keys(client: redis.Redis, name: str) -> None:
    @optimistic(
        watch=lambda accounts: accounts,
        operation_id=lambda accounts: f"sum of {len(accounts)}",
        escalate_to=lambda accounts: accounts[0],
    )
    def total(pipe: Any, accounts: list[str]) -> int:
        calls.append(1)
        found = sum(int(pipe.get(account) or 0) for account in accounts)
        if len(calls) == 1:
            client.set(accounts[-1], 4)
        pipe.multi()
        pipe.set(f"{name}:sum", found)
        return found

    calls: list[int] = []
    assert 4 == total([f"{name}:{number}" for number in range(5)])
    assert 2 == len(calls)


def test_the_lock_to_escalate_to_is_named_by_the_call(client: redis.Redis, name: str) -> None:
    @optimistic(watch="{key}", escalate_to="lock of {key}", escalate_after=1, wait=0.01)
    def add(pipe: Any, key: str) -> None:
        client.incr(key)
        pipe.multi()
        pipe.incr(key)

    with held(f"lock of {name}"), pytest.raises(TooMuchContention) as raised:
        add(name)
    assert isinstance(raised.value.__cause__, LockTimeout)


def test_a_lock_around_it_sees_the_parameters_of_the_call(client: redis.Redis, name: str) -> None:
    @redis_lock("account:{key}")
    @optimistic(watch="{key}")
    def add(pipe: Any, key: str) -> bool:
        pipe.multi()
        pipe.incr(key)
        return not is_free(f"account:{key}")

    assert add(name)
    assert b"1" == client.get(name)


def work(pipe: Any, account: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            {"watch": "account:{async_count}"},
            ValueError,
            "watch: .*async_count.*there are: account",
        ),
        ({"watch": "{pipe}"}, ValueError, "watch: .*pipe"),
        ({"watch": "a", "remember": 0.5}, ValueError, "remember.*0.5"),
        ({"watch": "a", "operation_id": "{x}"}, ValueError, "operation_id: .*x"),
        ({"watch": "a", "escalate_to": "{x}"}, ValueError, "escalate_to: .*x"),
        ({"watch": "a", "escalate_to": "a", "attempts": 2}, ValueError, "escalate_after=2"),
        ({"watch": "a", "using": redis.asyncio.Redis()}, TypeError, "blocking client"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_decorating(
    options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        optimistic(**options)(work)


def test_a_function_that_cannot_take_the_pipeline_is_refused() -> None:
    decorate: Any = optimistic(watch="a")
    for function, text in (
        (lambda: None, "needs a first parameter"),
        (lambda *, pipe: None, "needs a first parameter"),
        (7, "not 7"),
        (int, "not <class 'int'>"),
        (lambda pipe: (yield), "generator"),
    ):
        with pytest.raises(TypeError, match=text):
            decorate(function)


def test_a_method_is_referred_to_run() -> None:
    with pytest.raises(TypeError, match=r"method.*optimistic\.run"):

        class Account:
            @optimistic(watch="a")
            def withdraw(self, pipe: Any) -> None: ...


def test_one_lock_is_escalated_to(name: str) -> None:
    decorate = optimistic(watch=name, escalate_to=lambda account: ["a", "b"])  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="escalate_to has one name"):
        decorate(work)(1)


def test_parentheses_may_not_be_forgotten() -> None:
    with pytest.raises(TypeError):
        optimistic(work)  # type: ignore[misc,call-arg]


@pytest.mark.parametrize(
    ("keys", "options", "text"),
    [
        ((), {}, "at least one key"),
        (("a",), {"operation_id": ""}, "operation_id must not be empty"),
        (("a",), {"escalate_to": "a", "attempts": 2}, "escalate_after=2"),
    ],
)
def test_run_refuses_what_cannot_be_meant(keys: Any, options: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        optimistic.run(lambda pipe: None, *keys, **options)


@pytest.mark.parametrize("one", [True, False])
def test_run_watches_what_the_decorator_would(client: redis.Redis, name: str, one: bool) -> None:
    keys = f"{name}:a", f"{name}:b"
    seen: list[Any] = []

    def change(pipe: Any) -> None:
        seen.append(pipe.get(keys[0]))
        if len(seen) == 1:
            client.set(keys[0], "theirs")
        pipe.multi()
        pipe.set(keys[1], "ours")

    optimistic.run(change, watch=keys[0] if one else keys)
    assert [None, b"theirs"] == seen
    asyncio.run(optimistic.arun(read_back, watch=[name]))


async def read_back(pipe: Any) -> None:
    await pipe.get("x")


def test_a_field_without_a_value_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="account"):
        optimistic(watch="account:{account}")(work)(None)  # type: ignore[arg-type]
