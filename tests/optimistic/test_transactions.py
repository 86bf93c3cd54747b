"""WATCH, read, MULTI, EXEC: what is applied, what is tried again, and when it ends."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from redis_locks import TooMuchContention, optimistic
from redis_locks.optimistic import WatchingPipeline
from redis_locks.testing.server import EmbeddedServer
from tests.optimistic.sides import Adding, AsyncSide, Pipe, Side
from tests.support.world import until


def test_the_value_is_returned_and_what_was_queued_is_applied(
    side: Side, client: redis.Redis, name: str
) -> None:
    client.set(name, 40)
    assert 42 == side.run(Adding(name, 2), name)
    assert b"42" == client.get(name)


def test_a_transaction_that_met_a_conflict_reads_again(
    side: Side, client: redis.Redis, name: str
) -> None:
    body = Adding(name, 1, lambda attempt: client.incrby(name, 10) if attempt < 3 else None)
    assert 21 == side.run(body, name)
    assert (3, b"21") == (body.calls, client.get(name))


def test_any_of_several_watched_keys_makes_a_conflict(
    side: Side, client: redis.Redis, name: str
) -> None:
    other = f"{name}:other"
    body = Adding(name, 1, lambda attempt: client.set(other, 1) if attempt == 1 else None)
    assert 1 == side.run(body, name, other)
    assert 2 == body.calls


@pytest.mark.parametrize("attempts", [1, 3])
def test_endless_conflicts_end_after_so_many_attempts(
    side: Side, client: redis.Redis, name: str, attempts: int
) -> None:
    body = Adding(name, 1000, lambda _: client.incr(name))
    with pytest.raises(
        TooMuchContention, match=rf" on (redis|unix)://.*{attempts} attempt.*Nothing was written"
    ) as raised:
        side.run(body, name, attempts=attempts)
    assert ((name,), attempts) == (raised.value.keys, raised.value.attempts)
    assert (attempts, str(attempts).encode()) == (body.calls, client.get(name))


def test_without_multi_nothing_is_written_and_the_value_returned(
    side: Side, client: redis.Redis, name: str, operations: Callable[[], list[bytes]]
) -> None:
    async def body(pipe: Pipe) -> str:
        return f"found {await pipe.read('get', name)}"

    assert "found None" == side.run(body, name)
    assert [] == operations()
    assert not client.exists(name)


def test_an_error_of_the_function_is_raised_and_nothing_written(
    side: Side, client: redis.Redis, name: str, operations: Callable[[], list[bytes]]
) -> None:
    async def body(pipe: Pipe) -> None:
        pipe.multi()
        pipe.set(name, 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side.run(body, name)
    assert [] == operations()
    assert not client.exists(name)


def test_a_refused_command_is_raised_as_the_server_says_it(
    side: Side, client: redis.Redis, name: str
) -> None:
    client.hset(name, "field", 1)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        side.run(Adding(name), name)


def test_a_write_before_multi_is_refused_and_not_applied(
    side: Side, client: redis.Redis, name: str
) -> None:
    async def body(pipe: Pipe) -> None:
        await pipe.read("incrby", name, 1)

    with pytest.raises(RuntimeError, match=r"INCRBY before pipe.multi\(\)"):
        side.run(body, name)
    assert not client.exists(name)


def test_executing_by_hand_is_refused(side: Side, client: redis.Redis, name: str) -> None:
    async def body(pipe: Pipe) -> None:
        pipe.multi()
        pipe.set(name, 1)
        await pipe.read("execute")

    with pytest.raises(RuntimeError, match=r"do not call pipe.execute\(\)"):
        side.run(body, name)
    assert not client.exists(name)


def test_a_block_that_would_drop_the_writes_is_refused(
    side: Side, client: redis.Redis, name: str
) -> None:
    async def body(pipe: Pipe) -> None:
        if side.kind == "blocking":
            with pipe.raw:
                pipe.raw.set(name, 1)
        else:
            async with pipe.raw:
                pipe.raw.set(name, 1)

    with pytest.raises(RuntimeError, match=r"do not write `with pipe:`"):
        side.run(body, name)
    assert not client.exists(name)


@pytest.mark.parametrize("multi", [True, False])
def test_writing_after_unwatch_is_refused(
    side: Side, client: redis.Redis, name: str, multi: bool
) -> None:
    async def body(pipe: Pipe) -> None:
        await pipe.read("unwatch")
        if multi:
            pipe.multi()
        pipe.set(name, 1)

    with pytest.raises(RuntimeError, match="nothing protects"):
        side.run(body, name)
    assert not client.exists(name)


def test_unwatch_and_return_is_fine(side: Side, name: str) -> None:
    async def body(pipe: Pipe) -> str:
        await pipe.read("unwatch")
        return "nothing to do"

    assert "nothing to do" == side.run(body, name)


def test_the_function_may_watch_further_keys(side: Side, client: redis.Redis, name: str) -> None:
    seen = []

    async def body(pipe: Pipe) -> None:
        account = f"{name}:{(await pipe.read('get', name)).decode()}"
        await pipe.read("watch", account)
        seen.append(await pipe.read("get", account))
        if len(seen) == 1:
            client.set(account, 2)
        pipe.multi()
        pipe.set(account, 3)

    client.set(name, "a")
    side.run(body, name)
    assert [None, b"2"] == seen
    assert b"3" == client.get(f"{name}:a")


@pytest.mark.verdict
def test_no_update_is_lost_among_many(side: Side, client: redis.Redis, name: str) -> None:
    def add() -> None:
        for _ in range(20):
            side.run(Adding(name), name, attempts=1000)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(add) for _ in range(6)]:
            done.result()
    assert b"120" == client.get(name)


def test_no_round_trip_is_spent_on_looking_for_an_operation_that_nobody_else_knows(
    private_server: EmbeddedServer, side: Side, name: str
) -> None:
    def sent() -> dict[str, int]:
        stats = watcher.info("commandstats")
        words = ("watch", "get", "unwatch", "multi", "exec")
        return {word: stats.get(f"cmdstat_{word}", {}).get("calls", 0) for word in words}

    with private_server.client() as watcher:
        for number, looks in ((1, 0), (2, 1)):
            watcher.config_resetstat()
            operation_id = name if looks else None
            side.run(Adding(name), name, using=private_server.url, operation_id=operation_id)
            expected = {"watch": 1, "get": 1 + looks, "unwatch": 0, "multi": 1, "exec": 1}
            assert expected == sent(), number


def test_a_coroutine_function_is_for_arun(name: str) -> None:
    async def body(pipe: Any) -> None: ...

    with pytest.raises(TypeError, match="arun"):
        optimistic.run(body, name)
    with pytest.raises(TypeError, match="arun"):
        optimistic.run(lambda pipe: body(pipe), name)  # noqa: PLW0108 - hides that it is one


def test_a_generator_that_the_function_returns_is_refused(side: Side, name: str) -> None:
    """It would have queued nothing, and nobody would have been told."""

    async def body(pipe: Pipe) -> Any:
        return (pipe.set(name, number) for number in range(2))

    with pytest.raises(TypeError, match="would run after the transaction"):
        side.run(body, name)


def test_a_cancelled_transaction_leaves_no_reply_for_the_next_one(
    client: redis.Redis, name: str
) -> None:
    client.set(name, "right")

    async def body(pipe: Any) -> None:
        await pipe.xread(
            {f"{name}:stream": "$"}, block=4000
        )  # answered long after the cancellation

    async def read(pipe: Any) -> Any:
        return await pipe.get(name)

    async def cancelled() -> None:
        task = asyncio.ensure_future(optimistic.arun(body, name))
        blocked = lambda: client.info("clients")["blocked_clients"]  # noqa: E731
        await asyncio.to_thread(until, blocked)
        while not task.done():
            # Until Python 3.12, `asyncio.wait_for` loses a cancellation at the moment at which
            # redis-py has sent.
            task.cancel()
            await asyncio.wait({task}, timeout=0.1)
        assert task.cancelled()
        for _ in range(3):
            assert b"right" == await optimistic.arun(read, name)

    asyncio.run(cancelled())


def test_an_interrupt_in_the_middle_of_a_reply_leaves_none_for_the_next_one(
    client: redis.Redis, name: str
) -> None:
    """The connection is closed: the next reader would get the interrupted one's reply."""
    client.set(name, "right")

    def interrupt() -> None:
        until(lambda: client.info("clients")["blocked_clients"])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def body(pipe: Any) -> Any:
        threading.Thread(target=interrupt).start()
        return pipe.xread({f"{name}:stream": "$"}, block=4000)

    with pytest.raises(KeyboardInterrupt):
        optimistic.run(body, name)
    client.xadd(f"{name}:stream", {"late": "reply"})
    for _ in range(3):
        assert b"right" == optimistic.run(lambda pipe: pipe.get(name), name)


def test_each_event_loop_has_connections_of_its_own_and_closes_them(
    client: redis.Redis, name: str
) -> None:
    async def twice() -> None:
        side = AsyncSide.arun
        for _ in range(2):
            await side(None, Adding(name), name)  # type: ignore[arg-type]

    before = len(client.client_list())
    for _ in range(3):
        asyncio.run(twice())
    assert b"6" == client.get(name)
    assert before >= len(client.client_list())


@pytest.mark.parametrize("error", [redis.ConnectionError, redis.WatchError, FileNotFoundError])
def test_an_error_of_something_else_that_the_function_calls_is_not_taken_for_ours(
    side: Side, name: str, error: type[Exception]
) -> None:
    def meanwhile(attempt: int) -> None:
        raise error("of another client")

    body = Adding(name, 1, meanwhile)
    with pytest.raises(error, match="of another client"):
        side.run(body, name)
    assert 1 == body.calls


@pytest.mark.long
def test_thousands_of_attempts_are_possible(side: Side, client: redis.Redis, name: str) -> None:
    body = Adding(name, 1, lambda attempt: client.incr(name) if attempt < 1100 else None)
    assert 1100 == side.run(body, name, attempts=2000)


def test_the_replies_to_what_was_queued_are_returned_as_redis_py_shapes_them(
    side: Side, client: redis.Redis, name: str
) -> None:
    def queue(pipe: Any) -> None:
        pipe.multi()
        pipe.hset(name, "a", "1")
        pipe.hgetall(name)
        pipe.incrbyfloat(f"{name}:n", 1.5)

    async def move(pipe: Pipe) -> str:
        queue(pipe.raw)
        return "not this"

    async def nothing(pipe: Pipe) -> str:
        return "nothing is queued"

    found = side.run(move, name, replies=True)
    client.delete(name, f"{name}:n")
    assert found == client.transaction(queue, name)
    assert side.run(nothing, name, replies=True) == []


def test_replies_are_not_wanted_of_an_operation_that_may_be_repeated(side: Side, name: str) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        side.run(Adding(name), name, replies=True, operation_id="payment:7")
    with pytest.raises(ValueError, match="exclude each other"):
        optimistic(watch=name, replies=True, operation_id="payment:{number}")
    with pytest.raises(TypeError, match="replies"):
        optimistic(watch=name, replies="yes")  # type: ignore[arg-type]


def test_a_decorated_function_returns_replies_as_well(name: str) -> None:
    @optimistic(watch=name, replies=True)
    def count(pipe: WatchingPipeline) -> Any:
        pipe.multi()
        pipe.incr(name)

    assert ([1], [2]) == (count(), count())
