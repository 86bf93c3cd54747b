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

Complete = Callable[[redis.Redis, str, str], list[str]]
MEMBERS = ["adam", "alan", "alice", "alma", "bob", "carol", "z", "zoe"]
BOTH = pytest.mark.parametrize("complete", [complete_with_watch, complete_with_lock])


@pytest.fixture
def guild(client: redis.Redis, name: str) -> Iterator[str]:
    for member in MEMBERS:
        join_guild(client, name, member)
    yield name
    client.delete(members_key(name))


@BOTH
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("al", ["alan", "alice", "alma"]), ("z", ["z", "zoe"]), ("x", [])],
)
def test_a_prefix_finds_its_names_and_leaves_no_marks(
    client: redis.Redis, guild: str, complete: Complete, prefix: str, expected: list[str]
) -> None:
    assert expected == complete(client, guild, prefix)
    assert [member.encode() for member in MEMBERS] == client.zrange(members_key(guild), 0, -1)


@BOTH
def test_many_look_at_once_and_each_gets_the_right_names(
    client: redis.Redis, guild: str, complete: Complete
) -> None:
    with ThreadPoolExecutor(6) as pool:
        looks = [pool.submit(complete, client, guild, "al") for _ in range(30)]
        joins = [pool.submit(join_guild, client, guild, f"b{number:03}") for number in range(10)]
    for join in joins:
        join.result()
    assert [["alan", "alice", "alma"]] * 30 == [look.result() for look in looks]
