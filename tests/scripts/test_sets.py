"""Sets of locks: all or none, script by script."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.scripts import Script
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.scripts.test_refusals import OF_HOLDERS
from tests.support import stored

AB = ("x:a", "x:b")


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("highest", AB)
def test_its_fencing_token_is_above_those_of_all_its_locks(
    bench: Bench, highest: str, mode: str
) -> None:
    bench.set_fence(9_000_000_000_000_000, highest)
    assert "9000000000000001" == bench.acquire("t", names=AB, mode=mode)[1]
    bench.release("t", names=AB)
    assert int(bench.acquire("u", names=["x:a"])[1]) > 9_000_000_000_000_001


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("highest", AB)
def test_a_hand_off_s_fencing_token_is_above_those_of_all_its_locks(
    bench: Bench, highest: str, mode: str
) -> None:
    bench.acquire("s", names=AB)
    bench.stand("t", names=AB, mode=mode)
    bench.set_fence(9_000_000_000_000_000, highest)
    assert bench.release("s", names=AB)
    claims = [bench.inspect(each)[3][2] for each in AB]
    assert [9_000_000_000_000_001] * 2 == [int(claim.split(b" ")[0]) for claim in claims]
    assert bench.release("t", names=AB)
    assert bench.is_idle(*AB)


def test_what_is_left_of_a_set_is_granted_when_its_holder_asks_anew(bench: Bench) -> None:
    bench.acquire("t", names=AB)
    heard = bench.stand("w", names=["x:b"])
    bench.drop_holder("x:a")
    bench.acquire("thief", names=["x:a"])
    assert "0" == bench.acquire("t", names=AB)[0]
    assert bench.heard(heard)
    assert (["thief"], ["w"]) == (bench.holders("x:a"), bench.holders("x:b"))


def test_a_set_that_leaves_lets_the_next_in_each_queue_in(bench: Bench) -> None:
    bench.acquire("s", names=["x:b"])
    bench.stand("t", names=AB)
    heard = bench.stand("v", names=["x:a"])
    bench.give_up("t", names=AB)
    assert bench.heard(heard)
    assert ["v"] == bench.holders("x:a")
    assert not bench.client.keys(f"{bench.prefix}*set:*")


def test_behind_a_set_that_waits_elsewhere_one_is_to_ask_again_and_not_at_once(
    bench: Bench,
) -> None:
    """The set may have died, which its next question shows; the one behind asks within 1 s."""
    bench.acquire("s", names=["x:b"])
    bench.stand("t", names=AB)
    for token, soonest, latest in (("v", 1_000, 1_000), ("w", 1_001, 60_000)):
        _, now, until, *_ = bench.acquire(token, wait=FOR_EVER, names=["x:a"])
        assert soonest <= int(until) - int(now) <= latest


def test_a_repeated_acquire_of_a_set_changes_nothing(bench: Bench) -> None:
    first = bench.acquire("t", names=AB)
    assert first[:2] == bench.acquire("t", names=AB)[:2]
    bench.queue_up("u", names=AB)
    bench.queue_up("u", names=AB)
    assert [b"u"] == stored.line(bench.client, bench.lock_key("x:a"))
    assert 2 == bench.client.llen(f"{bench.prefix}{{0}}:set:u")


def test_a_set_of_1000_locks_works(bench: Bench) -> None:
    names = [f"n{i}" for i in range(1000)]
    assert "1" == bench.acquire("t", names=names)[0]
    heard = bench.stand("u", names=names)
    assert bench.release("t", names=names)
    assert bench.heard(heard)
    assert bench.release("u", names=names)
    assert bench.is_idle(*names)


def test_a_waiting_set_whose_place_in_one_queue_expired_joins_all_again(bench: Bench) -> None:
    bench.acquire("s", names=AB)
    heard = bench.stand("t", names=AB)
    bench.drop_line("x:b")
    bench.queue_up("t", names=AB)
    bench.release("s", names=AB)
    assert bench.heard(heard)
    assert ["t"] == bench.holders("x:a") == bench.holders("x:b")


def test_a_set_that_lost_one_of_its_locks_is_not_told_that_it_holds(bench: Bench) -> None:
    bench.acquire("t", names=AB)
    bench.drop_holder("x:b")
    assert "1" == bench.acquire("o", names=["x:b"])[0]
    assert "0" == bench.acquire("t", names=AB)[0]
    assert [] == bench.holders("x:a")
    assert ["o"] == bench.holders("x:b")


def test_a_foreign_key_in_the_way_of_a_set_leaves_nothing_without_an_end(bench: Bench) -> None:
    bench.acquire("s", names=AB)
    bench.client.delete(bench.index_key)
    bench.client.sadd(bench.index_key, "theirs")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        bench.acquire("t", names=AB, wait=FOR_EVER)
    bench.client.delete(bench.index_key)
    assert [] == bench.keys_without_expiry()


def test_a_set_that_is_cancelled_leaves_all_its_queues(bench: Bench) -> None:
    told, heard = bench.listen("t"), bench.listen("v")
    bench.acquire("s", names=["x:b"])
    bench.queue_up("t", names=AB)
    bench.queue_up("v", names=["x:a"])
    assert ["1"] == bench.words(scripts.CANCEL, "o.1", "t", names=["x:b"])
    assert ["t", "-1"] == (bench.heard(told) or [])[:2]
    assert bench.heard(heard)
    assert ["v"] == bench.holders("x:a")
    assert ["1"] == bench.words(scripts.CANCEL, "o.1", "t", names=["x:b"])  # as after a lost reply
    assert ["0"] == bench.words(scripts.CANCEL, "o.2", "t", names=["x:b"])
    assert ["0"] == bench.words(scripts.CANCEL, "o.3", "s", names=["x:b"])
    assert ["3"] == bench.acquire("t", names=AB, wait=FOR_EVER)
    assert ["v"] == bench.holders("x:a")


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("lost", AB)
@pytest.mark.parametrize("script", OF_HOLDERS, ids=lambda script: script.name)
def test_a_set_of_which_one_lock_is_lost_is_held_no_more(
    bench: Bench, script: Script, lost: str, mode: str
) -> None:
    fence = int(bench.acquire("t", names=AB, mode=mode)[1])
    bench.words(scripts.FORCE_RELEASE, "operator", "t", names=[lost])
    thief = int(bench.acquire("thief", names=[lost])[1])
    assert ["0"] == bench.words(script, "t", *OF_HOLDERS[script], names=AB)
    assert thief > fence
    assert ["thief"] == bench.holders(lost)


@pytest.mark.parametrize("first_to_end", AB)
@pytest.mark.parametrize(
    "script", [scripts.EXTEND, scripts.CONFIRM, scripts.FENCE], ids=lambda script: script.name
)
def test_a_set_is_held_until_the_first_of_its_leases_ends(
    bench: Bench, script: Script, first_to_end: str
) -> None:
    now = int(bench.acquire("t", names=AB, lease=60_000)[2])
    stored.set_lease_end(bench.client, bench.lock_key(first_to_end), now + 30_000)
    held, _, ends = bench.words(script, "t", 0, *OF_HOLDERS[script][1:], names=AB)
    assert ("1", now + 30_000) == (held, int(ends))


@pytest.mark.parametrize("first_to_end", AB)
def test_a_set_that_was_adopted_is_held_until_the_first_of_its_leases_ends(
    bench: Bench, first_to_end: str
) -> None:
    now = int(bench.acquire("t", names=AB, lease=60_000)[2])
    adoption = ("heir", 60_000, WHO, 0)
    assert "1" == bench.words(scripts.ADOPT, "t", *adoption, names=AB)[0]
    stored.set_lease_end(bench.client, bench.lock_key(first_to_end), now + 30_000)
    held, _, ends, _ = bench.words(scripts.ADOPT, "t", *adoption, names=AB)  # as after a lost reply
    assert ("1", now + 30_000) == (held, int(ends))
