from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import Bench

FAR = 4_102_444_800_000
"""The year 2100, in ms."""


def test_a_free_lock_has_neither_holder_nor_waiters(bench: Bench) -> None:
    now, *rest = bench.inspect()
    assert int(now) > 0
    assert [0, 0, [], [], b"none"] == rest
    assert set() == bench.all_keys()


def test_a_holder_whose_lease_ended_is_not_shown(bench: Bench) -> None:
    bench.acquire("a")
    bench.end_lease()
    assert bench.holder() is None


def test_a_long_line_is_read_in_parts(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b", "c", "d", "e", "f")
    bench.abandon("d")
    place, found = b"first", []
    while place != b"none":
        *_, line, place = bench.run(scripts.INSPECT, "", 2, place, 0, 0)
        found.append(line[::2])
    assert [[b"b", b"c"], [b"e", b"f"]] == found


def test_the_names_of_locks_whose_lease_has_ended_are_left_out(bench: Bench) -> None:
    bench.client.zadd(bench.index_key, {"long ago": 1, "held": FAR})
    bench.client.pexpire(bench.index_key, 60_000)
    assert [b"held"] == bench.index()


def test_each_name_comes_with_the_length_of_its_queue_if_asked_for(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("you", "her")
    bench.client.zadd(bench.index_key, {"free": FAR})
    names, _, lengths = bench.run(scripts.NAMES, "", 0, 0, 10, 1)
    assert {b"free": b"0", bench.name.encode(): b"2"} == dict(
        zip(names.split(b"\0"), lengths.split(b" "), strict=True)
    )
