"""Autocompletion over a sorted set: with WATCH and with a lock, while others join and look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from demo_project.bank.autocomplete import (
    complete_with_lock,
    complete_with_watch,
    join_guild,
    members_key,
)

MEMBERS = ["adam", "alan", "alice", "alma", "bob", "carol", "z", "zoe"]


@pytest.fixture
def guild(client: redis.Redis, name: str) -> Iterator[str]:
    for member in MEMBERS:
        join_guild(client, name, member)
    yield name
    client.delete(members_key(name))


@pytest.mark.parametrize("complete", [complete_with_watch, complete_with_lock])
def test_many_look_at_once_and_each_gets_the_right_names_and_leaves_no_marks(
    client: redis.Redis, guild: str, complete: Callable[[redis.Redis, str, str], list[str]]
) -> None:
    for prefix, expected in (("z", ["z", "zoe"]), ("x", [])):
        assert expected == complete(client, guild, prefix)
    more = [f"b{number:03}" for number in range(10)]
    with ThreadPoolExecutor(6) as pool:
        looks = [pool.submit(complete, client, guild, "al") for _ in range(30)]
        for join in [pool.submit(join_guild, client, guild, member) for member in more]:
            join.result()
    assert [["alan", "alice", "alma"]] * 30 == [look.result() for look in looks]
    found = client.zrange(members_key(guild), 0, -1)
    assert sorted([*MEMBERS, *more]) == [member.decode() for member in found]
