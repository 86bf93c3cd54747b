"""Waits that began in the same millisecond: all parties agree which one is the youngest."""

from __future__ import annotations

import pytest

from redis_locks import scripts
from redis_locks.values.claims import Claim
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.scripts.test_detect import LOOK

WANTED = {"A.2": ("y",), "B.2": ("x",)}


@pytest.fixture
def circle(bench: Bench) -> Bench:
    """A has x and wants y, B has y and wants x, since the same millisecond."""
    bench.acquire("A.1", names=("x",))
    bench.acquire("B.1", names=("y",))
    for token in WANTED:
        bench.listen(token)
    for _ in range(100):
        queue_up_at_once(bench)
        if len({since(bench, token) for token in WANTED}) == 1:
            return bench
        for token, names in WANTED.items():
            bench.give_up(token, names=names)
    pytest.fail("no two commands of one transaction ran in the same millisecond")


def queue_up_at_once(bench: Bench) -> None:
    client = bench.client
    with client.pipeline(transaction=True) as bench.client:
        for token, names in WANTED.items():
            asked = (60_000, "exclusive", WHO, token, FOR_EVER, 1)
            bench.run(scripts.ACQUIRE, token, *asked, names=names)
        bench.client.execute()
    bench.client = client


def since(bench: Bench, token: str) -> int:
    (_, text) = bench.inspect(*WANTED[token])[4]
    claim = Claim.parse(text.decode())
    assert claim is not None
    return claim.since_ms


def gives_way(bench: Bench, token: str) -> bool:
    asked = (token, "exclusive", WHO, "bank.py:7", "", *LOOK)
    return bench.words(scripts.DETECT, *asked, names=WANTED[token])[0] == "1"


def test_who_looks_last_gives_way_if_its_token_is_the_greater(circle: Bench) -> None:
    assert not gives_way(circle, "A.2")
    assert gives_way(circle, "B.2")


def test_who_looks_last_leaves_it_to_the_greater_token(circle: Bench) -> None:
    assert not gives_way(circle, "B.2")
    assert not gives_way(circle, "A.2")
    assert gives_way(circle, "B.2")
