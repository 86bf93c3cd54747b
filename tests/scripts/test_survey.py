"""The summaries of locks that the script `survey` packs."""

from __future__ import annotations

from redis_locks import scripts
from tests.scripts.bench import Bench

FIELDS = 12


def summaries(bench: Bench) -> list[list[str]]:
    _, packed = bench.run(scripts.SURVEY, "")
    fields = packed.decode().split("\0") if packed else []
    return [fields[start : start + FIELDS] for start in range(0, len(fields), FIELDS)]


def test_a_free_lock_has_no_summary(bench: Bench) -> None:
    assert [] == summaries(bench)
    bench.acquire("me")
    bench.release("me")
    assert [] == summaries(bench)


def test_the_first_waiter_is_the_one_that_stands_first(bench: Bench) -> None:
    bench.acquire("me")
    bench.queue_up("you")
    bench.queue_up("her")
    ((name, waiting, since, holding, held, ends, lease, *_),) = summaries(bench)
    assert (bench.name, "2", "1") == (name, waiting, holding)
    assert int(held) <= int(since) < int(ends) == int(held) + int(lease)


def test_of_a_lock_of_another_protocol_it_tells_the_number_and_the_lease(bench: Bench) -> None:
    bench.acquire("me")
    ends = "8000000000000"
    told = [bench.name, "0", "0", "1", "0", ends, "0", "2", "", "0", "", "0"]
    for held_until, expected in [(ends, [told]), ("1", [])]:
        theirs = {"state": "2 0 9 anything", "holder": f"theirs {held_until}"}
        bench.client.hset(bench.keys.lock, mapping=theirs)
        assert expected == summaries(bench)
