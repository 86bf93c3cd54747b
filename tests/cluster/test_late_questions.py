"""On a cluster too, a question that comes late grants nothing to a token that has ended."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from redis_locks import Lock
from tests.cluster.nodes import Nodes
from tests.support.connections import keep_first_question
from tests.support.keys import lock_keys, partition_of
from tests.support.world import World, held

PARTITIONS = 12


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_released_token_does_not_hold_again(
    on_nodes: Nodes, worlds: list[World], name: str, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    with redis.RedisCluster("127.0.0.1", on_nodes.masters[0].port) as client:
        for world in worlds:
            lock = Lock(f"lock:{world.kind}", mode=mode)
            late = keep_first_question(monkeypatch)
            world.release(held(world, lock))
            text, keys, argv = late()
            client.eval(text, len(keys), *keys, *argv)
            partition = partition_of(lock.name, PARTITIONS)
            kept = lock_keys(name, partition, lock.name)
            assert not client.hexists(kept.lock, "holder")
            assert not client.exists(kept.sharers)
