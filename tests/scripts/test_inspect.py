from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import Bench

FAR = 4_102_444_800_000
"""The year 2100, in ms."""


def test_a_long_line_is_read_in_parts(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b", "c", "d", "e", "f")
    bench.give_up("d")
    place, found = b"first", []
    while place != b"none":
        *_, line, place = bench.run(scripts.INSPECT, "", 2, place, 0, 0)
        found.append(line[::2])
    assert [[b"b", b"c"], [b"e", b"f"]] == found


def test_the_names_of_locks_whose_lease_has_ended_are_left_out(bench: Bench) -> None:
    bench.client.zadd(bench.index_key, {"long ago": 1, "held": FAR})
    bench.client.pexpire(bench.index_key, 60_000)
    assert [b"held"] == bench.index()
