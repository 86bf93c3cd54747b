"""On a cluster: one slot, or a clear error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import MovedError

from redis_locks.testing.server import EmbeddedServer
from tests.optimistic.sides import Adding, Side
from tests.ports import free_ports
from tests.support.optimistic import record_refreshes
from tests.support.world import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[redis.RedisCluster]:
    """A cluster of one node that has all slots: what spans slots is refused all the same."""
    port, bus = free_ports(2)
    options = (
        *("--port", str(port), "--bind", "127.0.0.1", "--cluster-announce-ip", "127.0.0.1"),
        *("--cluster-enabled", "yes", "--cluster-port", str(bus)),
    )
    with EmbeddedServer(options, use_environment=False) as server, server.client() as node:
        node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        until(lambda: node.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        with redis.RedisCluster("127.0.0.1", port) as client:
            yield client


def test_keys_in_one_slot_make_a_transaction(
    cluster: redis.RedisCluster, side: Side, name: str
) -> None:
    keys = (f"{{{name}}}:a", f"{{{name}}}:b")
    body = Adding(keys[0], 1, lambda attempt: cluster.incr(keys[1]) if attempt == 1 else None)
    assert 1 == side.run(body, *keys, using=cluster, operation_id="{x}")
    assert 1 == side.run(body, *keys, using=cluster, operation_id="{x}")
    assert (2, b"1") == (body.calls, cluster.get(keys[0]))


def test_a_key_without_a_tag_shares_its_slot_with_its_operation(
    cluster: redis.RedisCluster, side: Side, name: str
) -> None:
    for key in (name, f"{name}{{open", f"{{{name}}}{{second}}"):
        assert 1 == side.run(Adding(key), key, using=cluster)


def test_keys_and_reads_of_different_slots_are_refused_before_anything_is_sent(
    cluster: redis.RedisCluster, side: Side, name: str
) -> None:
    body = Adding(f"{name}:a")
    with pytest.raises(ValueError, match=r":a' \(slot \d+\) and .*:b' \(slot \d+\).*hash tag"):
        side.run(body, f"{name}:a", f"{name}:b", using=cluster)
    with pytest.raises(ValueError, match=r":a' \(slot \d+\) and .*:b' \(slot \d+\).*hash tag"):
        side.run(body, f"{name}:a", using=cluster, read=[("GET", f"{name}:b")])
    assert 0 == body.calls
    keys = (f"{{{name}}}:a", f"{{{name}}}:b")
    assert 1 == side.run(Adding(keys[0]), keys[0], using=cluster, read=[("GET", keys[1])])


def test_a_key_whose_braces_leave_no_neighbour_is_refused(
    cluster: redis.RedisCluster, side: Side, name: str
) -> None:
    with pytest.raises(ValueError, match="without other braces"):
        side.run(Adding(f"{name}}}"), f"{name}}}", using=cluster)


def test_conflicts_are_counted_apart_from_the_transaction(
    cluster: redis.RedisCluster, side: Side, name: str
) -> None:
    body = Adding(name, 1, lambda attempt: cluster.incr(name) if attempt == 1 else None)
    side.run(body, name, using=cluster, escalate_to=name)
    rates = [rate for rate in side.conflicts(using=cluster) if rate.key == name]
    assert [(name, 2, 1)] == rates


def test_a_slot_that_has_moved_is_looked_up_again(
    cluster: redis.RedisCluster, side: Side, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed = record_refreshes(monkeypatch)

    def moved(attempt: int) -> None:
        if attempt == 1:
            raise MovedError("1 127.0.0.1:1")

    body = Adding(name, 1, moved)
    assert 1 == side.run(body, name, using=cluster)
    assert (2, 1) == (body.calls, len(refreshed))
