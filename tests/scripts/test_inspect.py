from __future__ import annotations

import pytest

from redis_locks import scripts
from tests.scripts.bench import Bench


def test_a_free_lock_has_neither_holder_nor_waiters(bench: Bench) -> None:
    now, *rest = bench.inspect()
    assert int(now) > 0
    assert [0, 0, [], [], b"none"] == rest
    assert set() == bench.all_keys()


def test_a_holder_whose_lease_ended_is_not_shown(bench: Bench) -> None:
    bench.acquire("a")
    bench.end_lease()
    assert bench.holder() is None


@pytest.mark.parametrize(("most", "shown"), [(0, []), (1, ["b"]), (2, ["b", "c"])])
def test_no_more_waiters_are_shown_than_asked_for(
    bench: Bench, most: int, shown: list[str]
) -> None:
    bench.acquire("a")
    bench.queue_up("b", "c", "d")
    _, waiting, _, _, line, _ = bench.inspect(most)
    assert (3, shown) == (waiting, [token.decode() for token in line[::2]])


def test_a_long_line_is_read_in_parts(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("b", "c", "d", "e", "f")
    bench.abandon("d")
    place, found = b"first", []
    while place != b"none":
        *_, line, place = bench.run(scripts.INSPECT, "", 2, place, 0, 0)
        found.append(line[::2])
    assert [[b"b", b"c"], [b"e", b"f"]] == found


def test_holders_are_read_in_parts(bench: Bench) -> None:
    for place in range(5):
        bench.acquire(f"reader{place}", mode="shared", lease=60_000 + 10_000 * place)

    def part(ends: int, skip: int) -> tuple[list[bytes], int]:
        held = bench.run(scripts.INSPECT, "", 2, "none", ends, skip)[3]
        return held[::3], int(held[-2])

    tokens, ends = part(0, 0)
    assert [b"reader0", b"reader1"] == tokens
    tokens, ends = part(ends, 1)
    assert [b"reader2", b"reader3"] == tokens
    assert [b"reader4"] == part(ends, 1)[0]
