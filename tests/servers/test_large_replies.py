"""Replies that a server would cut a subscriber off for: 32 MB at once, or 8 MB for a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

import pytest
import redis

from redis_locks import Lock, run_once
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer, Tasks, Threads, World, held

pytestmark = pytest.mark.ci

LARGE = bytes(40_000_000)
SLACK = 1.0
"""Seconds that it may take longer than redis-py, on a busy machine."""


@pytest.fixture
def key(client: redis.Redis, name: str) -> Iterator[str]:
    found = f"{name}:large"
    client.set(found, LARGE)
    yield found
    client.delete(found)


def subscribers(client: redis.Redis) -> set[str]:
    """The ids of all connections that are subscribed."""
    return {each["id"] for each in client.client_list() if int(each["sub"]) or int(each["ssub"])}


def test_a_large_value_is_read_about_as_fast_as_by_redis_py(
    world: World, client: redis.Redis, name: str, key: str
) -> None:
    world.release(held(world, Lock(name)))
    began = perf_counter()
    client.get(key)
    theirs = perf_counter() - began
    began = perf_counter()
    hold = held(world, Lock(name, read=[("GET", key), ("STRLEN", key)]))
    assert perf_counter() - began < 3 * theirs + SLACK
    assert [LARGE, len(LARGE)] == hold.read
    world.release(hold)


def test_a_large_value_is_read_after_a_wait_again_and_again(
    world: World, client: redis.Redis, name: str, key: str
) -> None:
    server_side = Observer(client)
    lock = Lock(name, read=[("GET", key)], wait=PATIENCE, lease=PATIENCE)
    for _ in range(4):  # after a short wait, it may ask in another way
        hold = held(world, Lock(name))
        waiter = world.start(world.acquire, lock)
        server_side.until_waiters(name, 1)
        world.release(hold)
        granted = waiter.result(PATIENCE)
        assert [LARGE] == granted.read
        world.release(granted)
    assert set() == server_side.left_of(name)


def test_a_value_that_grew_large_since_it_was_read_last_is_read(
    client: redis.Redis, name: str, key: str
) -> None:
    """It may be asked for together with a place in the queue, on the subscribed connection."""
    lock = Lock(name, read=[("GET", key)], wait=PATIENCE, lease=PATIENCE)
    client.set(key, b"small")
    read = []
    for value in (b"small", b"small", b"small", LARGE, LARGE, LARGE):
        hold = held(Tasks(), Lock(name))
        waiter = Threads().start(lock.acquire)
        Observer(client).until_waiters(name, 1)
        client.set(key, value)
        hold.release()
        granted = waiter.result(PATIENCE)
        read.append(granted.read == [value])
        granted.release()
    assert [True] * 6 == read


def test_a_nested_hold_reads_a_large_value(world: World, name: str, key: str) -> None:
    def nested(_: object) -> object:
        with Lock(name, read=[("GET", key)]) as inner:
            return inner.read

    def nested_async(_: object) -> object:
        async def read() -> object:
            async with Lock(name, read=[("GET", key)]) as inner:
                return inner.read

        return read()

    body = nested if world.kind == "blocking" else nested_async
    assert [LARGE] == world.block(Lock(name), body)


def test_tasks_that_read_much_at_once_keep_their_shared_connection(
    client: redis.Redis, name: str, key: str
) -> None:
    client.set(key, LARGE[: 1 << 20])

    async def read(number: int) -> int:
        async with Lock(f"{name}:{number}", read=[("GET", key)]) as hold:
            return len(hold.read[0])

    async def main() -> None:
        of_others = subscribers(client)  # which may go meanwhile
        async with Lock(name):
            ours = subscribers(client) - of_others
            assert [1 << 20] * 200 == await asyncio.gather(*map(read, range(200)))
            assert ours
            assert ours <= subscribers(client)

    asyncio.run(main())


def test_a_large_result_of_a_job_is_known_to_all(
    world: World, name: str, client: redis.Redis
) -> None:
    result = "x" * 1_000_000  # the most, nearly
    job = run_once(name, store_result=True)

    @job
    def work() -> str:
        return result

    @job
    async def awork() -> str:
        return result

    for _ in range(2):
        found = work() if world.kind == "blocking" else asyncio.run(awork())
        assert result == found
    assert result == job.status().result
    client.delete(*client.scan_iter(match=f"*{name}*", count=10_000))


def test_a_server_s_limit_is_what_these_tests_think(private_server: EmbeddedServer) -> None:
    with private_server.client() as client:
        (limits,) = client.config_get("client-output-buffer-limit").values()
    assert f"pubsub {32 << 20} {8 << 20} 60" in limits
