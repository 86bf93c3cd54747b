from __future__ import annotations

import pytest
import redis

from redis_locks import scripts
from redis_locks.testing.server import EmbeddedServer
from tests.scripts.bench import Bench

FUTURE = 8 * 10**15


def force(bench: Bench, *holds: str, by: str = "o.1") -> tuple[int, list[str]]:
    """Return the fencing token that overtakes those of the holds, and which of them were ended."""
    fence, *ended = bench.words(scripts.FORCE_RELEASE, by, *holds)
    return int(fence), ended


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:3", "no_key", "intent:shared"])
def test_the_fencing_token_is_overtaken_and_the_next_is_higher_still(
    bench: Bench, mode: str
) -> None:
    held = int(bench.acquire("a", mode=mode)[1])
    fence, ended = force(bench, "a")
    assert ["a"] == ended
    assert held < fence == bench.last_fence()
    assert bench.holder() is None
    assert fence < int(bench.acquire("b", mode=mode)[1])


def test_one_lock_of_a_set_is_overtaken_for_all_of_it(bench: Bench) -> None:
    names = [bench.name, "other"]
    bench.set_fence(FUTURE)
    held = int(bench.acquire("a", names=names)[1])
    assert held > FUTURE
    assert force(bench, "a")[0] > held
    assert ["a"] == bench.holders("other")


def test_the_first_waiter_is_told_of_a_higher_fencing_token(bench: Bench) -> None:
    bench.acquire("a")
    heard = bench.stand("b")
    fence, _ = force(bench, "a")
    token, granted, _ = bench.heard(heard) or ()
    assert "b" == token == bench.holder()
    assert fence < int(granted) == bench.fence()


def test_repeated_it_says_the_same_and_leaves_the_successor_alone(bench: Bench) -> None:
    bench.acquire("a")
    bench.stand("b")
    first = force(bench, "a")
    last = bench.last_fence()
    assert first == force(bench, "a")
    assert ("b", last) == (bench.holder(), bench.last_fence())
    assert (0, []) == force(bench, "a", by="o.2")  # another one, later


def test_a_hold_whose_lease_has_ended_is_not_ended_again_but_the_lock_goes_on(bench: Bench) -> None:
    bench.acquire("a")
    bench.stand("b")
    bench.end_lease()
    assert (0, []) == force(bench, "a")
    assert "b" == bench.holder()


def test_a_free_lock_is_left_without_a_trace(bench: Bench) -> None:
    assert (0, []) == force(bench, "a")
    assert set() == bench.all_keys()


def test_only_the_fencing_token_and_for_a_minute_the_outcome_are_left(bench: Bench) -> None:
    bench.acquire("a")
    force(bench, "a")
    (outcome,) = bench.all_keys() - {bench.keys.lock, bench.index_key}
    assert 0 < bench.client.pttl(outcome) <= 60_000


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_server_out_of_memory_releases_all_the_same(
    private_server: EmbeddedServer, name: str, mode: str
) -> None:
    client: redis.Redis
    with private_server.client() as client:
        bench = Bench(client, name)
        held = int(bench.acquire("a", mode=mode)[1])
        client.config_set("maxmemory", 1)
        fence, ended = force(bench, "a")
        assert ["a"] == ended
        assert held < fence == bench.last_fence()
        bench.close()


def test_a_hold_whose_lease_has_ended_cannot_commit_once_an_operator_asked(bench: Bench) -> None:
    bench.acquire("a")
    bench.end_lease()
    assert (0, []) == force(bench, "a")
    assert ["0"] == bench.words(scripts.COMMIT, "a", 3, "SET", f"{bench.prefix}:late", "1")
    assert bench.is_idle()
