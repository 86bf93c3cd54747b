from __future__ import annotations

import pytest

from redis_locks import scripts
from redis_locks.scripts import Script
from tests.scripts.bench import Bench
from tests.support import stored

HOUR_MS = 3_600_000


@pytest.fixture(params=[scripts.EXTEND, scripts.CONFIRM], ids=["extend", "confirm"])
def bench(bench: Bench, request: pytest.FixtureRequest) -> Bench:
    bench.extension = request.param
    return bench


def test_extend_makes_a_lease_last_so_long_from_now(bench: Bench) -> None:
    bench.acquire("a", lease=1000)
    held, now, ends = bench.extend("a", 60_000)
    assert "1" == held
    assert int(now) + 60_000 == int(ends) == int(bench.inspect()[3][1])


def test_extend_keeps_the_lock_in_the_index(bench: Bench) -> None:
    bench.acquire("a", lease=1000)
    ends = int(bench.extend("a", 600_000)[2])
    assert ends == bench.client.zscore(bench.index_key, bench.name)
    assert ends <= bench.client.pexpiretime(bench.index_key)


def test_extend_never_shortens_a_lease(bench: Bench) -> None:
    _, _, since = bench.acquire("a", lease=60_000)
    indexed = bench.client.zscore(bench.index_key, bench.name)
    held, now, ends = bench.extend("a", 1000)
    assert "1" == held
    assert 60_000 == int(ends) - int(since)
    assert int(now) < int(ends)
    assert indexed == bench.client.zscore(bench.index_key, bench.name)


def test_extend_keeps_claim_and_fencing_token(bench: Bench) -> None:
    bench.acquire("a")
    claim = bench.holder_claim()
    bench.extend("a", 120_000)
    assert claim == bench.holder_claim()


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize(
    ("extension", "writes"), [(scripts.EXTEND, False), (scripts.CONFIRM, True)]
)
def test_only_confirm_writes_when_the_lease_is_as_long_already(
    bench: Bench, mode: str, extension: Script, *, writes: bool
) -> None:
    """Replicas that have its write have all writes before it."""
    bench.extension = extension
    bench.acquire("a", lease=60_000, mode=mode)

    def changes() -> int:
        return int(bench.client.info("persistence")["rdb_changes_since_last_save"])

    before = changes()
    assert "1" == bench.extend("a", 1000)[0]
    assert writes == (changes() > before)


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:2"])
def test_what_is_extended_for_hours_never_expires(bench: Bench, mode: str) -> None:
    bench.acquire("a", mode=mode)
    stored.expire_soon(bench.client, bench.keys.lock, 1000)
    bench.client.pexpire(bench.keys.sharers, 1000)
    assert "1" == bench.extend("a", 90_000)[0]
    kept = {bench.keys.lock} if mode == "exclusive" else {bench.keys.lock, bench.keys.sharers}
    assert [key for key in kept if bench.client.pttl(key) < HOUR_MS] == []
