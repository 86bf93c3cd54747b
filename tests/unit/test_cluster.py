"""What we know of a cluster: its slots, its address, and the scripts as its nodes run them."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import scripts
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import NotNow, Redirected, reply_error
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.slots import SlotMap, slot_of
from redis_locks.keys import index_key, lock_keys, partition_channel
from redis_locks.run_once import scripts as run_once_scripts

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
        ("rediss+cluster://me:pass%40word@h:1,[::1]:2,other", [("h", 1), ("::1", 2), ("other", 6379)], True),
        ("redis+cluster://h:1/0?socket_timeout=2", [("h", 1)], False),
    ],
)  # fmt: skip
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
    assert slot_of(index) == slot_of(channel.encode()) == slot_of(lock_keys("p", 3, "{x}").queue)


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
    "text", ["TRYAGAIN Multiple keys", "CLUSTERDOWN", "ERR Script attempted to access a non local key in a"]
)  # fmt: skip
def test_what_passes_is_no_broken_link(text: str) -> None:
    assert isinstance(reply_error(ErrorReply(text), HERE), NotNow)
