"""Names and keys of locks."""

from __future__ import annotations

import pytest

from redis_locks import Lock
from redis_locks.values.keys import LockKeys, index_key, lock_keys, partition_of


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "must not be empty"),
        ("x" * 513, "513 bytes"),
        ("é" * 300, "600 bytes"),
        ("a\0b", "NUL"),
        ("\ud800", "UTF-8"),
    ],
)
def test_a_name_must_have_1_to_512_bytes_of_utf_8_without_nul(value: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as caught:
        Lock(value)
    assert str(caught.value).startswith("name ")
    assert len(str(caught.value)) < 300


def test_the_keys_of_different_locks_differ() -> None:
    names = ["a", "b", "a:b", "{a}", "a}", "a\n", "holder:a", "queue:a", ":a", "A"]
    lock_specific = [key for name in names for key in lock_keys("p", 0, name)]
    lock_specific.append(index_key("p", 0))
    assert len(set(lock_specific)) == len(lock_specific)


@pytest.mark.parametrize("name", ["plain", "{1}", "a{b}c", "}{"])
def test_all_keys_of_a_lock_share_the_hash_tag_of_its_partition(name: str) -> None:
    keys = lock_keys("p", 3, name)
    for key in keys:
        assert b"3" == key.partition(b"{")[2].partition(b"}")[0]
    assert isinstance(keys, LockKeys)


def test_partitions_are_stable_and_within_bounds() -> None:
    assert {0} == {partition_of(f"name{i}", 1) for i in range(50)}
    spread = [partition_of(f"name{i}", 8) for i in range(400)]
    assert set(range(8)) == set(spread)
    assert spread == [partition_of(f"name{i}", 8) for i in range(400)]
