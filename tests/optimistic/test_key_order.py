"""An operation is the same in whatever order its keys come: sets differ between processes."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from redis_locks import optimistic
from tests.optimistic.sides import Adding, Side


@pytest.mark.parametrize("tag", ["", "{one}:"])
def test_an_operation_repeated_with_its_keys_swapped_is_applied_once(
    side: Side, client: redis.Redis, name: str, tag: str
) -> None:
    keys = (f"{tag}{name}:a", f"{tag}{name}:b")
    body = Adding(keys[0])
    assert 1 == side.run(body, *keys, operation_id=name)
    assert 1 == side.run(body, *reversed(keys), operation_id=name)
    assert (1, b"1") == (body.calls, client.get(keys[0]))


def test_a_decorated_function_may_name_its_keys_by_a_set(client: redis.Redis, name: str) -> None:
    keys = [f"{name}:{number}" for number in range(3)]
    calls = []

    @optimistic(watch=lambda turn: keys[turn:] + keys[:turn], operation_id=name)
    def add(pipe: Any, turn: int) -> int:
        calls.append(turn)
        pipe.multi()
        pipe.incr(name)
        return turn

    # The orders in which processes of different PYTHONHASHSEED go through one set of keys.
    assert [0, 0, 0] == [add(turn) for turn in range(3)]
    assert ([0], b"1") == (calls, client.get(name))
