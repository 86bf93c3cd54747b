"""What `doctor` finds on a cluster."""

from __future__ import annotations

import pytest
from django.test import override_settings

from redis_locks import Lock
from tests.cluster.nodes import Node, Nodes
from tests.ports import free_ports
from tests.support import diagnosis
from tests.support.diagnosis import Finding, Level
from tests.support.world import World, held

pytestmark = pytest.mark.ci


def found(using: str | None = None) -> dict[str, Finding]:
    return {finding.check: finding for finding in diagnosis.diagnose(using=using)}


def test_all_masters_are_looked_at(on_nodes: Nodes) -> None:
    findings = found()
    assert [
        "server", "scripting", "version", "role", "rights", "features", "locking", "outages",
        "eviction", "shared cache", "persistence", "replicas", "sentinel", "cluster", "clock",
        "latency",
    ] == list(findings)  # fmt: skip
    assert {"persistence": Level.WARNING} == {
        check: finding.level for check, finding in findings.items() if finding.level != Level.OK
    }
    for node in on_nodes.masters:
        assert f"127.0.0.1:{node.port} " in findings["cluster"].message
    assert "all masters: The node answers." == findings["server"].message
    assert findings["persistence"].message.startswith("all masters: No append-only file")


def test_the_node_that_is_not_as_it_should_be_is_named(on_nodes: Nodes) -> None:
    odd = on_nodes.masters[1]
    odd.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        finding = found()["eviction"]
    finally:
        odd.client.config_set("maxmemory-policy", "noeviction")
    assert Level.WARNING is finding.level
    assert finding.message.startswith(f"127.0.0.1:{odd.port}: maxmemory-policy is allkeys-lru")


def test_the_node_that_lacks_a_command_is_named(name: str) -> None:
    nodes = Nodes(masters=2)
    odd = nodes.masters[1] = Node(("--rename-command", "SSUBSCRIBE", ""))
    with nodes, override_settings(REDIS_LOCKS={"CONNECTION": nodes.url, "PREFIX": name}):
        finding = found()["features"]
    assert Level.ERROR is finding.level
    assert finding.message.startswith(f"127.0.0.1:{odd.port}: The server lacks sharded pub/sub")
    assert "The server lacks TIME" not in finding.message


def test_the_node_that_refuses_a_command_is_named(on_nodes: Nodes) -> None:
    odd = on_nodes.masters[1]
    odd.client.execute_command("ACL", "SETUSER", "default", "-ssubscribe")
    try:
        findings = found()
    finally:
        odd.client.execute_command("ACL", "SETUSER", "default", "+ssubscribe")
    assert Level.OK is findings["features"].level
    assert Level.ERROR is findings["rights"].level
    refusal = f"127.0.0.1:{odd.port}: User 'default' lacks the right to SSUBSCRIBE"
    assert findings["rights"].message.startswith(refusal)


def test_a_slot_that_moves_is_no_missing_feature(on_nodes: Nodes, name: str) -> None:
    source = on_nodes.owner(name, 0)
    target = next(node for node in on_nodes.masters if node is not source)
    slot = on_nodes.slot(name, 0)
    on_nodes.begin_to_move(slot, source, target)
    try:
        finding = found()["features"]
    finally:
        on_nodes.finish_moving(slot, source, target)
    assert Level.WARNING is finding.level
    assert finding.message.startswith(f"127.0.0.1:{source.port}: Not checked: another node has")


def test_one_partition_leaves_nodes_without_work(nodes: Nodes) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": nodes.url}):
        finding = found()["cluster"]
    assert Level.WARNING is finding.level
    assert "REDIS_LOCKS['PARTITIONS'] is 1" in finding.message


def test_a_node_given_as_a_server_is_an_error_that_names_the_cluster(nodes: Nodes) -> None:
    port = next(node.port for node in nodes.masters if node != nodes.owner("redis_locks", 0))
    finding = found(f"redis://127.0.0.1:{port}")["cluster"]
    assert Level.ERROR is finding.level
    assert f"redis+cluster://127.0.0.1:{port}" in finding.fix


def test_a_cluster_without_any_node_is_the_only_finding() -> None:
    (finding,) = diagnosis.diagnose(using=f"redis+cluster://127.0.0.1:{free_ports(1)[0]}")
    assert (diagnosis.REACHABLE, Level.ERROR) == (finding.check, finding.level)


def test_the_rights_that_the_fix_grants_are_enough(on_nodes: Nodes, worlds: list[World]) -> None:
    for node in on_nodes.masters:
        node.client.execute_command("ACL", "SETUSER", "app", "reset", "on", ">secret", "+info")
    url = on_nodes.url.replace("://", "://app:secret@")
    try:
        assert "NOPERM" in diagnosis.diagnose(using=url)[0].message
        for node in on_nodes.masters:
            node.client.execute_command("ACL", "SETUSER", "app", "+cluster|slots", "+eval")
        finding = found(url)["rights"]
        assert Level.ERROR is finding.level
        for node in on_nodes.masters:
            rules = finding.fix.removeprefix("ACL SETUSER app ")
            node.client.execute_command("ACL", "SETUSER", "app", rules)
        assert Level.OK is found(url)["rights"].level
        for world in worlds:
            for number in range(12):
                lock = Lock(*on_nodes.names_in(number, 1), using=url, wait=5)
                hold = held(world, lock)
                world.extend(hold, 30)
                world.release(hold)
    finally:
        for node in on_nodes.masters:
            node.client.execute_command("ACL", "DELUSER", "app")
