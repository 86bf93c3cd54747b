from __future__ import annotations

import pytest

from redis_locks import scripts
from tests.scripts.bench import Bench
from tests.support import stored

FAR = 9_000_000_000_000_000


def raised(bench: Bench, token: str, fence: int = FAR, lease: int = 1000) -> list[str]:
    return bench.words(scripts.FENCE, token, lease, fence)


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:3"])
def test_hold_and_lock_get_the_higher_fencing_token(bench: Bench, mode: str) -> None:
    bench.acquire("a", mode=mode)
    assert "1" == raised(bench, "a")[0]
    assert FAR == bench.fence() == bench.last_fence()
    assert "1" == raised(bench, "a")[0]  # again, as after a lost reply
    assert ["a"] == bench.holders()
    assert f" {mode} " in bench.holder_claim()
    assert bench.release("a")
    assert int(bench.acquire("b")[1]) > FAR


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_fencing_tokens_are_kept_for_an_hour_after_each_lease(bench: Bench, mode: str) -> None:
    bench.acquire("a", lease=60_000)
    assert bench.release("a")
    stored.expire_soon(bench.client, bench.keys.lock, 1_800_000)
    bench.acquire("b", lease=60_000, mode=mode)
    assert 3_600_000 < bench.client.pttl(bench.keys.lock)


def test_a_lower_fencing_token_changes_nothing(bench: Bench) -> None:
    fence = int(bench.acquire("a")[1])
    assert "1" == raised(bench, "a", 1)[0]
    assert fence == bench.fence()
    assert fence == bench.last_fence()


def test_the_fencing_token_of_a_later_sharer_stays(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    later = int(bench.acquire("b", mode="shared")[1])
    assert "1" == raised(bench, "a", later - 1)[0]
    assert later == bench.last_fence()


def test_the_lease_is_lengthened_but_never_shortened(bench: Bench) -> None:
    bench.acquire("a", lease=30_000)
    _, now, ends = raised(bench, "a", lease=60_000)
    assert int(now) + 60_000 == int(ends) == int(bench.inspect()[3][1])
    assert [ends] == raised(bench, "a", lease=0)[2:]
