"""Reads with the acquire and writes with the release, within one slot of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio as aioredis
from redis.exceptions import ResponseError

from redis_locks import Hold, Lock, LockLost, inspection, key_beside
from tests.cluster.conftest import PARTITIONS
from tests.cluster.nodes import Nodes
from tests.support import calls
from tests.support.connections import LinkBroken, server_of
from tests.support.keys import partition_of
from tests.support.world import PATIENCE, Tasks, Threads, World, held, until


@pytest.fixture
def cluster(on_nodes: Nodes) -> Iterator[redis.RedisCluster]:
    with redis.RedisCluster("127.0.0.1", on_nodes.masters[0].port) as client:
        yield client


def commit(
    world: World, hold: Hold, queue: Callable[[Any], Any], *, transaction: bool = False
) -> None:
    """Commit what `queue` puts into a pipeline of this world's own kind of client."""
    port = int(_a_port(hold))
    if isinstance(world, Tasks):

        async def run() -> None:
            async with aioredis.RedisCluster(host="127.0.0.1", port=port) as client:
                pipe = client.pipeline(transaction=transaction)
                queue(pipe)
                await hold.acommit(pipe)
                assert 0 == len(pipe)

        world.run(run())
    else:
        with redis.RedisCluster("127.0.0.1", port) as client:
            pipe = client.pipeline(transaction=transaction)
            queue(pipe)
            hold.commit(pipe)
            assert 0 == len(pipe)


def _a_port(hold: Hold) -> str:
    return server_of(hold).rpartition(":")[2]


def neighbours(nodes: Nodes, prefix: str) -> tuple[str, str]:
    """Two locks on one node, but of different slots."""
    owners: dict[Any, str] = {}
    for each in (f"lock:{number}" for number in range(100)):
        partition = partition_of(each, PARTITIONS)
        other = owners.setdefault(nodes.owner(prefix, partition), each)
        if partition_of(other, PARTITIONS) != partition:
            return other, each
    raise LookupError(prefix)


def test_data_beside_the_lock_is_read_with_the_acquire_and_written_with_the_release(
    on_nodes: Nodes, worlds: list[World], name: str, cluster: redis.RedisCluster
) -> None:
    for world in worlds:
        for each in on_nodes.one_for_each(name).values():
            key = key_beside(each, f"{world.kind}:{name}:{{data}}")
            cluster.set(key, 41)
            hold = held(world, Lock(each, read=[("GET", key), ("MGET", key, key)]))
            assert [b"41", [b"41", b"41"]] == hold.read
            commit(world, hold, lambda pipe, key=key: pipe.incr(key))  # type: ignore[misc]
            assert b"42" == cluster.get(key)
    assert [] == [each for each in inspection.locks() if name in each.name]


def test_plain_commands_are_applied_in_the_slot_of_the_lock_only(
    on_nodes: Nodes, worlds: list[World], name: str, cluster: redis.RedisCluster
) -> None:
    (each,) = on_nodes.names_in(1, 1)
    source, target = key_beside(each, f"{name}:source"), key_beside(each, f"{name}:target")
    for world in worlds:
        cluster.set(source, 41)
        # One whose keys the cluster is asked for as well.
        commands = [("INCR", source), ("COPY", source, target, "REPLACE")]
        world.do(held(world, Lock(each)), "commit", commands)
        assert b"42" == cluster.get(target)
        hold = held(world, Lock(each))
        for wrong in (("INCR", f"{name}:elsewhere"), ("COPY", source, f"{name}:elsewhere")):
            with pytest.raises(ValueError, match="key_beside"):
                world.do(hold, "commit", [("INCR", source), wrong])
        with pytest.raises(ValueError, match="cannot be part of a commit on a cluster"):
            world.do(hold, "commit", [("NOSUCH", source)])
        with pytest.raises(ValueError, match="must be text that its encoding has"):
            world.do(hold, "commit", [("SET", source, "\ud800")])
        assert b"42" == cluster.get(source)
        world.release(hold)


@pytest.mark.ci
def test_a_waiter_reads_what_the_holder_before_it_wrote(
    on_nodes: Nodes, world: World, name: str
) -> None:
    (each,) = on_nodes.names_in(2, 1)
    key = key_beside(each, name)
    lock = Lock(each, read=[("GET", key)], wait=PATIENCE)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    until(lambda: (found := inspection.lock(each)) and found.waiting == 1)
    commit(world, hold, lambda pipe: pipe.incr(key))
    successor = waiter.result(PATIENCE)
    assert [b"1"] == successor.read
    world.release(successor)


@pytest.mark.ci
def test_a_value_too_large_for_a_subscriber_is_read(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    (each,) = on_nodes.names_in(2, 1)
    key, large = key_beside(each, name), bytes(40_000_000)
    cluster.set(key, large)
    lock = Lock(each, read=[("GET", key)], wait=PATIENCE)
    for _ in range(2):
        hold = held(world, Lock(each))
        waiter = world.start(world.acquire, lock)
        until(lambda: (found := inspection.lock(each)) and found.waiting == 1)
        world.release(hold)
        successor = waiter.result(PATIENCE)
        assert [large] == successor.read
        world.release(successor)
    cluster.delete(key)


@pytest.mark.ci
def test_a_command_whose_keys_move_about_in_it_is_looked_through(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    (each,) = on_nodes.names_in(1, 1)
    source, target = key_beside(each, f"{name}:source"), key_beside(each, f"{name}:target")
    cluster.zadd(source, {"x": 1})
    commit(world, held(world, Lock(each)), lambda pipe: pipe.zunionstore(target, {source: 3}))
    assert 3.0 == cluster.zscore(target, "x")


@pytest.mark.ci
def test_the_pipeline_may_be_one_for_a_transaction(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    (each,) = on_nodes.names_in(1, 1)
    key = key_beside(each, name)
    commit(world, held(world, Lock(each)), lambda pipe: pipe.incr(key), transaction=True)
    assert b"1" == cluster.get(key)


@pytest.mark.ci
def test_a_key_of_another_slot_is_refused_though_its_node_is_the_same(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    each, other = neighbours(on_nodes, name)
    near, far = key_beside(each, name), key_beside(other, name)
    hold = held(world, Lock(each))
    for queue in (
        lambda pipe: pipe.incr(near).incr(far),
        lambda pipe: pipe.incr(near).zunionstore(near, {far: 1}),
    ):
        with pytest.raises(ValueError, match=rf"slot of the lock.*'{re.escape(far)}'.*key_beside"):
            commit(world, hold, queue)
    hold.check()
    world.release(hold)
    with pytest.raises(ValueError, match=rf"read=.*'{re.escape(far)}'.*read when the lock is held"):
        world.acquire(Lock(each, read=[("GET", near), ("EXISTS", near, far)]))
    with pytest.raises(ValueError, match="read="):
        world.acquire(Lock(each, read=[("XINFO", "STREAM", far)]))
    assert [] == inspection.locks()
    assert not cluster.exists(near)


@pytest.mark.ci
def test_what_is_for_no_slot_or_cannot_be_told_is_refused(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    hold = held(world, Lock(*on_nodes.names_in(0, 1)))
    key = key_beside(hold.name, name)
    for words, why in (
        (("PING", "x"), "PING has no key"),
        (("GIBBERISH", key), "cannot tell the keys of GIBBERISH"),
        (("RENAME", key), "cannot tell the keys of RENAME"),
        (("EVAL", "return 1", 1, key), "EVAL cannot be part"),
    ):
        with pytest.raises(ValueError, match=why):
            commit(world, hold, lambda pipe, words=words: pipe.execute_command(*words))  # type: ignore[misc]
    hold.check()
    world.release(hold)


@pytest.mark.ci
def test_a_pipeline_that_watches_or_is_of_another_world_or_server_is_refused(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster, client: redis.Redis
) -> None:
    hold = held(world, Lock(*on_nodes.names_in(0, 1)))
    pipe = cluster.pipeline(transaction=True)
    pipe.watch(key_beside(hold.name, name))
    with pytest.raises(ValueError, match="leave watch"):
        world.do(hold, "commit", pipe)
    pipe.reset()
    with pytest.raises(ValueError, match="one step needs one server"):
        world.do(hold, "commit", client.pipeline())
    if isinstance(world, Threads):
        with pytest.raises(ValueError, match="acommit"):
            hold.commit(aioredis.RedisCluster(host="127.0.0.1", port=1).pipeline())
    world.release(hold)
    elsewhere = held(world, Lock(name, using=client_url(client)))
    with pytest.raises(ValueError, match="belongs to a cluster"):
        world.do(elsewhere, "commit", cluster.pipeline())
    world.release(elsewhere)


def client_url(client: redis.Redis) -> str:
    options = client.connection_pool.connection_kwargs
    return (
        f"unix://{options['path']}" if "path" in options else f"redis://127.0.0.1:{options['port']}"
    )


@pytest.mark.ci
def test_a_pipeline_of_another_cluster_is_refused(on_nodes: Nodes, world: World) -> None:
    with (
        Nodes(masters=1) as other,
        redis.RedisCluster("localhost", other.masters[0].port) as client,
    ):
        hold = held(world, Lock(*on_nodes.names_in(0, 1)))
        with pytest.raises(ValueError, match=rf"cluster of .*:{other.masters[0].port}, but"):
            world.do(hold, "commit", client.pipeline())
        world.release(hold)


@pytest.mark.ci
def test_a_holder_that_lost_its_lock_writes_nothing(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    hold = held(world, Lock(*on_nodes.names_in(4, 1)))
    key = key_beside(hold.name, name)
    inspection.force_release(hold.name)
    with pytest.raises(LockLost):
        commit(world, hold, lambda pipe: pipe.incr(key))
    assert not cluster.exists(key)


@pytest.mark.ci
def test_a_command_that_fails_is_reported_and_the_lock_released(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    hold = held(world, Lock(*on_nodes.names_in(4, 1)))
    key = key_beside(hold.name, name)
    cluster.set(key, "text")
    with pytest.raises(ResponseError, match="integer"):
        commit(world, hold, lambda pipe: pipe.incr(key))
    assert [] == inspection.locks()


@pytest.mark.ci
def test_a_commit_and_reads_wait_until_their_slot_has_moved(
    on_nodes: Nodes, world: World, name: str, cluster: redis.RedisCluster
) -> None:
    """Half of the data is on the other node: neither half may be written, or read, alone."""
    partition = 8
    slot = on_nodes.slot(name, partition)
    source = on_nodes.owner(name, partition)
    target = next(node for node in on_nodes.masters if node is not source)
    (each,) = on_nodes.names_in(partition, 1)
    gone, here = key_beside(each, f"{name}:gone"), key_beside(each, f"{name}:here")
    cluster.set(gone, 1)
    cluster.set(here, 1)
    hold = held(world, Lock(each, lease=60))
    on_nodes.begin_to_move(slot, source, target)
    on_nodes.carry(source, target, gone)
    refused = source.errors()
    committing = Threads().start(commit, world, hold, lambda pipe: pipe.incr(here).incr(gone))
    until(lambda: source.errors() > refused + 1)
    assert not committing.done()
    assert "1" == source.client.get(here)
    on_nodes.finish_moving(slot, source, target)
    committing.result(PATIENCE)
    assert (b"2", b"2") == (cluster.get(gone), cluster.get(here))
    reader = held(world, Lock(each, read=[("MGET", gone, here)], wait=PATIENCE))
    assert [[b"2", b"2"]] == reader.read
    world.release(reader)
    on_nodes.move(slot, source)  # other tests want something on each node


@pytest.mark.ci
def test_a_commit_whose_answer_is_lost_is_applied_once(
    on_nodes: Nodes,
    world: World,
    name: str,
    cluster: redis.RedisCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold = held(world, Lock(*on_nodes.names_in(6, 1)))
    key = key_beside(hold.name, name)
    calls.lose_the_reply(monkeypatch, "commit", LinkBroken("the connection was cut"))
    commit(world, hold, lambda pipe: pipe.incr(key))
    assert b"1" == cluster.get(key)
    assert [] == inspection.locks()
