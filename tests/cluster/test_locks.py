"""Locks on a cluster of three masters; the contract itself is run on it by `contract/`."""

from __future__ import annotations

from time import monotonic

import pytest
import redis
import redis.asyncio as aioredis
import valkey
import valkey.asyncio
from django.conf import settings
from django.test import override_settings
from redis.cluster import ClusterNode

from redis_locks import Lock, LockBackendError, inspection
from tests.cluster.conftest import PARTITIONS
from tests.cluster.nodes import Nodes
from tests.cluster.waiters import until_waiters
from tests.ports import free_ports
from tests.support.world import PATIENCE, World, held, until


def test_waiters_are_handed_the_lock_in_order(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    for world in worlds:
        for each in on_nodes.one_for_each(name).values():
            lock = Lock(each, wait=PATIENCE)
            hold = held(world, lock)
            waiters = []
            for number in range(3):
                waiters.append(world.start(world.acquire, lock))
                until_waiters(each, number + 1)
            for waiter in waiters:
                world.release(hold)
                successor = waiter.result(PATIENCE)
                assert successor.fencing_token > hold.fencing_token
                hold = successor
            world.release(hold)
    assert [] == inspection.locks()


def test_a_waiter_asks_the_nodes_no_more_while_it_waits(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    def asked() -> int:
        return sum(node.calls("evalsha") for node in on_nodes.masters)

    for world in worlds:
        hold = held(world, Lock(name))
        before = asked()
        assert world.acquire(Lock(name, wait=1)) is None
        # Whether it is free, who is in a deadlock, that it gives up; some scripts were not known.
        assert asked() - before <= 8
        world.release(hold)


def test_a_set_over_all_nodes_is_one_hold_and_is_listed(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    names = sorted(on_nodes.one_for_each(name).values())
    for world in worlds:
        hold = held(world, Lock(*names))
        assert names == inspection.names()
        assert names == [lock.name for lock in inspection.locks()]
        assert {hold.fencing_token} == {
            lock.holders[0].fencing_token for lock in inspection.locks(names=names)
        }
        world.extend(hold, 60)
        world.release(hold)
        assert [] == inspection.locks()


def test_without_any_node_acquire_fails_at_once(worlds: list[World], name: str) -> None:
    hosts = ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    started = monotonic()
    for world in worlds:
        with pytest.raises(LockBackendError, match=r"no node of .* can be reached"):
            world.acquire(Lock(name, using=f"redis+cluster://{hosts}", wait=None))
    assert monotonic() < started + PATIENCE / 2


@pytest.mark.ci
def test_cut_links_and_forgotten_scripts_do_no_harm(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    for world in worlds:
        for node, each in on_nodes.one_for_each(name).items():
            lock = Lock(each, wait=PATIENCE)
            hold = held(world, lock)
            waiter = world.start(world.acquire, lock)
            until_waiters(each, 1)
            node.client.script_flush()
            node.client.client_kill_filter(_type="normal", skipme=True)
            node.client.client_kill_filter(_type="pubsub", skipme=True)
            world.release(hold)
            successor = waiter.result(PATIENCE)
            world.release(successor)
    assert [] == inspection.locks()


def blocking_client() -> redis.RedisCluster:
    return redis.RedisCluster("127.0.0.1", _port())


def async_client() -> aioredis.RedisCluster:
    return aioredis.RedisCluster("127.0.0.1", _port())


def blocking_client_of_valkey() -> valkey.ValkeyCluster:
    return valkey.ValkeyCluster("127.0.0.1", _port())


def async_client_of_valkey() -> valkey.asyncio.ValkeyCluster:
    return valkey.asyncio.ValkeyCluster("127.0.0.1", _port())


def remapping_client() -> redis.RedisCluster:
    # Its nodes go by another name here, as they do behind a tunnel.
    return redis.RedisCluster(
        startup_nodes=[ClusterNode("localhost", _port())],  # type: ignore[no-untyped-call]
        address_remap=lambda address: ("localhost", address[1]),
    )


def _port() -> int:

    return int(settings.PORT_OF_A_NODE)


@pytest.mark.ci
@pytest.mark.parametrize(
    "factory",
    [
        "blocking_client",
        "async_client",
        "remapping_client",
        "blocking_client_of_valkey",
        "async_client_of_valkey",
    ],
)
def test_the_connection_may_be_a_callable_that_returns_a_cluster_client(
    nodes: Nodes, worlds: list[World], name: str, factory: str
) -> None:
    port = nodes.masters[1].port
    entries = {"CONNECTION": f"{__name__}.{factory}", "PREFIX": name, "PARTITIONS": PARTITIONS}
    with override_settings(REDIS_LOCKS=entries, PORT_OF_A_NODE=port):
        for world in worlds:
            names = nodes.one_for_each(name).values()
            world.release(held(world, Lock(*names)))


@pytest.mark.ci
def test_what_needs_a_single_server_is_refused(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    for world in worlds:
        for each in on_nodes.one_for_each(name).values():
            with pytest.raises(ValueError, match="crash_release=True needs a single server"):
                world.acquire(Lock(each, crash_release=True))
            with pytest.raises(ValueError, match=r"replicas .* needs a single server"):
                world.acquire(Lock(each, replicas=1))
    assert [] == inspection.locks()


@pytest.mark.ci
def test_a_force_released_holder_hears_of_it_at_once(
    on_nodes: Nodes, worlds: list[World], name: str
) -> None:
    for world in worlds:
        holds = [
            held(world, Lock(each, lease=600)) for each in on_nodes.one_for_each(name).values()
        ]
        for hold in holds:
            # Blocking code listens only for holds that last.
            until(lambda: _listens(on_nodes))
            assert 1 == inspection.force_release(hold.name).ended
            until(lambda hold=hold: hold.is_lost)  # type: ignore[misc]


def _listens(nodes: Nodes) -> bool:
    return any(node.client.pubsub_channels("*:holders:*") for node in nodes.masters)
