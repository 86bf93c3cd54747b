from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import Bench

FAR = 4_102_444_800_000
"""The year 2100, in ms."""


def index(bench: Bench, ends: dict[str, int]) -> None:
    bench.client.zadd(bench.index_key, ends)
    bench.client.pexpire(bench.index_key, 60_000)


def part(bench: Bench, ends: int, skip: int, most: int) -> tuple[list[bytes], bytes]:
    packed, last, lengths = bench.run(scripts.NAMES, "", ends, skip, most)
    assert b"" == lengths
    return (packed.split(b"\0") if packed else []), last


def test_an_empty_index_has_no_part(bench: Bench) -> None:
    assert ([], b"") == part(bench, 0, 0, 10)


def test_a_part_lists_names_by_lease_end_and_says_the_last_one_s(bench: Bench) -> None:
    index(bench, {"c": FAR + 3, "a": FAR + 1, "b": FAR + 2})
    assert ([b"a", b"b"], str(FAR + 2).encode()) == part(bench, 0, 0, 2)
    assert ([b"b", b"c"], str(FAR + 3).encode()) == part(bench, FAR + 2, 0, 10)


def test_a_part_can_skip_names_of_one_lease_end(bench: Bench) -> None:
    index(bench, dict.fromkeys("abc", FAR))
    assert ([b"c"], str(FAR).encode()) == part(bench, FAR, 2, 10)


def test_a_part_leaves_out_locks_whose_lease_has_ended(bench: Bench) -> None:
    index(bench, {"long ago": 1, "held": FAR})
    assert [b"held"] == part(bench, 0, 0, 10)[0]


def test_each_name_comes_with_the_length_of_its_queue_if_asked_for(bench: Bench) -> None:
    index(bench, {"free": FAR, bench.name: FAR + 1})
    bench.acquire("me")
    bench.queue_up("you")
    bench.queue_up("her")
    names, _, lengths = bench.run(scripts.NAMES, "", 0, 0, 10, 1)
    assert {b"free": b"0", bench.name.encode(): b"2"} == dict(
        zip(names.split(b"\0"), lengths.split(b" "), strict=True)
    )
