"""What counts as being in the way; a token's session is what stands before its last dot."""

from __future__ import annotations

import pytest

from redis_locks import scripts
from redis_locks.protocol import acquire
from tests.scripts.bench import WHO, Bench
from tests.support import stored

X, Y = ("x",), ("y",)
LOOK = ("", "first", "")
"""What it holds is not known, so that it looks in any case; its first look; from the beginning."""


def detect(
    bench: Bench, token: str, names: tuple[str, ...], *, mode: str = "exclusive", forsaken: str = ""
) -> str:
    return bench.words(scripts.DETECT, token, mode, WHO, "bank.py:7", forsaken, *LOOK, names=names)[
        0
    ]


def test_the_youngest_of_a_circle_gives_way_and_leaves_the_queue(bench: Bench) -> None:
    bench.acquire("A.1", names=X)
    bench.acquire("B.1", names=Y)
    bench.stand("A.2", names=Y)
    bench.stand("B.2", names=X)
    assert "0" == detect(bench, "A.2", Y)
    assert "1" == detect(bench, "B.2", X)
    assert "0" == detect(bench, "B.2", X)  # it does not wait any more


def test_the_shared_hold_that_an_upgrade_starts_from_is_not_in_its_way(bench: Bench) -> None:
    """It was taken by A, who waits for B; but B waits for C only."""
    for token in ("A.1", "C.1"):
        bench.acquire(token, names=X, mode="shared")
    bench.acquire("B.1", names=Y)
    bench.stand("A.2", names=Y)
    assert "0" == detect(bench, "A.2", Y)
    bench.stand("B.2", names=X, mode="upgrade:A.1")
    assert "0" == detect(bench, "B.2", X, mode="upgrade:A.1")


def test_a_hold_that_nobody_uses_any_more_is_in_nobodys_way(bench: Bench) -> None:
    bench.acquire("A.1", names=X)
    bench.stand("A.2", names=X)
    assert "0" == detect(bench, "A.2", X, forsaken="A.0 A.1")
    assert "1" == detect(bench, "A.2", X)


def test_what_a_waiter_writes_down_is_kept_until_it_looks_again(bench: Bench) -> None:
    bench.acquire("A.1", names=X)
    bench.stand("B.1", names=X)
    seconds, microseconds = bench.client.time()
    assert "0" == detect(bench, "B.1", X)
    (waits,) = (key for key in bench.all_keys() if key.endswith(b":waits"))
    assert bench.client.hexists(waits, "B")
    ends = bench.client.pexpiretime(waits) / 1000
    # A second to spare, for a waiter that is slow.
    assert acquire.LOOK_AGAIN + 1 < ends - seconds - microseconds / 1e6


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:1"])
@pytest.mark.parametrize("names", [X, X + Y])
def test_a_grant_takes_away_what_its_waiter_wrote_down(
    bench: Bench, mode: str, names: tuple[str, ...]
) -> None:
    bench.acquire("A.1", names=X)
    bench.stand("B.1", names=names, mode=mode)
    assert "0" == detect(bench, "B.1", names, mode=mode)
    for name in names:
        stored.age_wait(bench.client, bench.lock_key(name), "B.1", by_ms=1000)
    assert bench.release("A.1", names=X)
    assert ["B.1"] == bench.holders("x")
    assert not [key for key in bench.all_keys() if key.endswith(b":waits")]
