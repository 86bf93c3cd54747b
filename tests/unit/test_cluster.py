"""What we know of a cluster: its slots, its address, and the scripts as its nodes run them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import redis
import redis.asyncio
from django.test import override_settings

from redis_locks import key_beside, scripts
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.refusals import NotNow, Redirected, reply_error
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.slots import SlotMap, slot_of
from redis_locks.locks.reads import packed_reads, require_slot
from redis_locks.run_once import scripts as run_once_scripts
from redis_locks.values.keys import index_key, lock_keys, partition_channel, partition_of, set_keys

HERE = Endpoint.from_url("redis://here:1")
A, B, C = ("a", 1), ("b", 2), ("c", 3)
REPLY = [
    [0, 99, [b"a", 1, b"id"], [b"c", 3, b"id"]],
    [100, 16_383, [b"b", 2, b"id"]],
]


def test_owners_and_replicas_are_learned() -> None:
    slots = SlotMap([("seed", 9)])
    assert slots.owner(0) is None
    assert slots.learn(REPLY, A)
    assert (A, A, B, B) == tuple(slots.owner(slot) for slot in (0, 99, 100, 16_383))
    assert [A, B] == slots.owners()
    assert [A, C, B, ("seed", 9)] == slots.nodes()


def test_a_node_that_knows_no_slots_teaches_nothing() -> None:
    slots = SlotMap([A])
    slots.learn(REPLY, A)
    assert not slots.learn([], B)
    assert A == slots.owner(0)


@pytest.mark.parametrize("host", [b"", None, b"?"])
def test_an_address_that_is_left_out_is_that_of_the_node_asked(host: bytes | None) -> None:
    slots = SlotMap([A])
    slots.learn([[0, 16_383, [host, 7, b"id"]]], ("asked", 1))
    assert ("asked", 7) == slots.owner(0)


def test_a_slot_that_has_moved_is_noted_alone() -> None:
    slots = SlotMap([A])
    slots.learn(REPLY, A)
    slots.moved(5, "", 8, A)
    assert (("a", 8), A) == (slots.owner(5), slots.owner(6))


def test_addresses_are_mapped_as_the_user_says() -> None:
    slots = SlotMap([A], lambda address: ("here", address[1]))
    slots.learn(REPLY, A)
    slots.moved(5, "b", 2, A)
    assert (("here", 1), ("here", 2)) == (slots.owner(0), slots.owner(5))


def test_the_nodes_that_failed_are_asked_last_until_they_answer() -> None:
    slots = SlotMap([A, B, C])
    slots.failed(A)
    slots.failed(B)
    assert [C, A, B] == slots.nodes()
    assert slots.is_doubtful(A)
    slots.answered(A)
    assert [A, C, B] == slots.nodes()
    assert not slots.is_doubtful(A)


@pytest.mark.parametrize(
    ("url", "seeds", "encrypted"),
    [
        ("redis+cluster://h:1", [("h", 1)], False),
        (
            "rediss+cluster://me:pass%40word@h:1,[::1]:2,other",
            [("h", 1), ("::1", 2), ("other", 6379)],
            True,
        ),
        ("redis+cluster://h:1/0?socket_timeout=2", [("h", 1)], False),
    ],
)
def test_the_url_names_some_nodes(url: str, seeds: list[Any], encrypted: bool) -> None:
    cluster = ClusterEndpoint.from_url(url)
    assert seeds == list(cluster.seeds)
    assert encrypted == cluster.description.startswith("rediss+cluster://")
    assert "pass" not in cluster.description
    node = cluster.node(("n", 5))
    assert ("n", 5) == (node.kwargs["host"], node.kwargs["port"])
    assert node.in_cluster
    if encrypted:
        assert ("me", "pass@word") == (node.kwargs["username"], node.kwargs["password"])
    if "timeout" in url:
        assert 2 == node.reply_timeout


def test_nodes_are_reached_over_tls_by_threads_and_tasks_whatever_the_client() -> None:
    client = redis.asyncio.RedisCluster(host="h", ssl=True, ssl_check_hostname=False)
    node = ClusterEndpoint.from_client(client).node(A)
    assert isinstance(node.blocking_connection(), redis.SSLConnection)
    assert isinstance(node.async_connection(), redis.asyncio.SSLConnection)


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "redis+cluster://h:1/3", "redis+cluster://h:1?db=3", "redis+cluster://h:x"]
)  # fmt: skip
def test_another_form_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ClusterEndpoint.from_url(url)


def test_channel_and_keys_of_a_partition_are_in_one_slot() -> None:
    index = index_key("p", 3)
    channel = partition_channel(index, "abc")
    assert "p{3}:grants:abc" == channel
    assert slot_of(index) == slot_of(channel.encode()) == slot_of(lock_keys("p", 3, "{x}").sharers)


@pytest.mark.parametrize(
    "script", [*scripts.ALL, *run_once_scripts.ALL], ids=lambda each: each.name
)
def test_messages_of_scripts_stay_in_the_slot(script: scripts.Script) -> None:
    text = scripts.on_cluster(script).text
    for word, sharded in (
        *((b'"PUBLISH"', b'"SPUBLISH"'), (b'"NUMSUB"', b'"SHARDNUMSUB"')),
        (b'"{%d+}:index$"', b'":index$"'),
    ):
        assert word not in text
        assert script.text.count(word) == text.count(sharded)
    assert (b"nowhere" in text) != script.is_extension
    assert scripts.on_cluster(script) is scripts.on_cluster(script)


def test_a_redirection_says_where_to_go() -> None:
    moved = reply_error(ErrorReply("MOVED 3999 ::1:6381"), HERE)
    asked = reply_error(ErrorReply("ASK 3999 :6381"), HERE)
    assert isinstance(moved, Redirected)
    assert isinstance(asked, Redirected)
    assert (True, 3999, "::1", 6381) == (moved.for_good, moved.slot, moved.host, moved.port)
    assert (False, "") == (asked.for_good, asked.host)
    assert "redis+cluster://" in str(moved)


@pytest.mark.parametrize(
    "text",
    [
        "TRYAGAIN Multiple keys",
        "CLUSTERDOWN",
        "ERR Script attempted to access a non local key in a",
    ],
)
def test_what_passes_is_no_broken_link(text: str) -> None:
    assert isinstance(reply_error(ErrorReply(text), HERE), NotNow)


@pytest.mark.parametrize(("masters", "most"), [(2, 1.05), (3, 1.05), (4, 1.05), (6, 1.35)])
def test_64_partitions_share_out_the_locks_among_masters(masters: int, most: float) -> None:
    """As masters have equal ranges of slots: so uncontended locks gain by each of them."""
    owner = [slot_of(index_key("p", partition)) * masters // 16_384 for partition in range(64)]
    locks = Counter(owner[partition_of(f"account:{number}", 64)] for number in range(20_000))
    assert masters == len(locks)
    assert max(locks.values()) <= most * 20_000 / masters


@pytest.mark.parametrize("partitions", [1, 64])
def test_a_key_beside_a_lock_is_in_its_slot(partitions: int) -> None:
    with override_settings(REDIS_LOCKS={"PARTITIONS": partitions}):
        for name in ("stock:7", "{x}", "bank.Account@default:7"):
            keys = set_keys("p", partition_of(name, partitions), (name,))
            for key in ("left", "{other}", "}{"):
                beside = key_beside(name, key)
                assert beside.endswith(f":{key}")
                assert {slot_of(beside.encode())} == set(map(slot_of, keys))


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "far"),
        ("MGET", "{1}:near", "far"),
        ("EXISTS", "far", "{1}:near"),
        ("xinfo", "STREAM", "far"),
        ("SINTER", "{1}:near", "{1}:near", "far"),
        ("HGET", "far\r\n$", "{1}:near"),
    ],
)
def test_a_read_of_another_slot_is_told_by_its_keys(command: tuple[str, ...]) -> None:
    keys = set_keys("p", 1, ("x",))
    require_slot(packed_reads([("HGET", "{1}:near", "far"), ("LRANGE", "{1}:near", 0, 1)]), keys)
    with pytest.raises(ValueError, match=r"read= reaches only .* and 'far.*key_beside"):
        require_slot(packed_reads([("GET", "{1}:near"), command]), keys)
