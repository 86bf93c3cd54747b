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
