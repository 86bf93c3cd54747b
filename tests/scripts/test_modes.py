"""Shared holders, permits and upgrades, script by script."""

from __future__ import annotations

import pytest

from redis_locks import scripts
from tests.scripts.bench import FOR_EVER, Bench
from tests.support import stored

MODES = ["exclusive", "shared", "permit:2"]


def granted(bench: Bench, token: str, mode: str, **options: object) -> bool:
    return bench.acquire(token, mode=mode, **options)[0] == "1"  # type: ignore[arg-type]


@pytest.mark.parametrize("held", MODES)
@pytest.mark.parametrize("asked", MODES)
def test_the_table_of_conflicts(bench: Bench, held: str, asked: str) -> None:
    assert granted(bench, "a", held)
    assert granted(bench, "b", asked) == (held == asked != "exclusive")


def test_a_sharer_that_was_never_counted_takes_no_other_one_away_when_it_ends(bench: Bench) -> None:
    """A server out of memory refuses the rest of a script that has written a sharer down."""
    bench.acquire("a", mode="shared")
    bench.client.zadd(bench.keys.sharers, {"uncounted": 1})
    assert not granted(bench, "w", "exclusive")
    assert ["a"] == bench.holders()


def test_a_refusal_names_the_sharer_whose_lease_ends_first(bench: Bench) -> None:
    now = int(bench.acquire("a", mode="shared", lease=9000)[2])
    bench.acquire("b", mode="shared", lease=5000)
    _, _, ends, *claim = bench.acquire("w")
    assert now + 5000 <= int(ends) < now + 9000
    assert "5000" == claim[3]


def test_extend_lengthens_one_sharers_lease_only(bench: Bench) -> None:
    for token in "ab":
        bench.acquire(token, mode="shared", lease=5000)
    before = bench.client.zscore(bench.keys.sharers, "b")
    held, now, ends = bench.extend("a", 60_000)
    assert ("1", 60_000) == (held, int(ends) - int(now))
    assert before == bench.client.zscore(bench.keys.sharers, "b")
    assert bench.client.pexpiretime(bench.keys.sharers) >= int(ends)
    assert ["0"] == bench.extend("nobody", 60_000)


def test_a_lower_capacity_takes_effect_at_once_and_nobody_loses_a_permit(bench: Bench) -> None:
    for token in "abc":
        assert granted(bench, token, "permit:3")
    assert not granted(bench, "d", "permit:2")
    bench.release("a")
    assert not granted(bench, "d", "permit:2")
    bench.release("b")
    assert granted(bench, "d", "permit:2")
    # Now a process of the old capacity must respect the new one.
    assert not granted(bench, "e", "permit:3")
    assert {"c", "d"} == set(bench.holders())


def test_an_upgrade_that_was_granted_and_is_given_up_goes_back_to_the_shared_hold(
    bench: Bench,
) -> None:
    bench.acquire("a", mode="shared")
    bench.acquire("A", mode="upgrade:a")
    bench.give_up("A", mode="upgrade:a")
    assert ["a"] == bench.holders()
    assert granted(bench, "b", "shared")


def test_an_upgrade_whose_shared_hold_is_lost_says_so(bench: Bench) -> None:
    for token in "ab":
        bench.acquire(token, mode="shared")
    bench.client.zadd(bench.keys.sharers, {"a": 1})
    assert ["2"] == bench.acquire("A", mode="upgrade:a", wait=FOR_EVER)
    assert [] == bench.queued()


def test_an_upgrade_that_is_given_up_says_that_its_shared_hold_is_lost(bench: Bench) -> None:
    for token in "ab":
        bench.acquire(token, mode="shared")
    bench.stand("A", mode="upgrade:a")
    stored.lose_sharers(bench.client, bench.keys.lock, bench.keys.sharers)
    assert ["2"] == bench.give_up("A", mode="upgrade:a")
    assert [] == bench.queued()


def test_an_upgrade_of_a_set_of_which_a_part_was_taken_away_has_lost_it(bench: Bench) -> None:
    names = (bench.name, f"{bench.name}:2")
    bench.acquire("a", mode="shared", names=names)
    assert "1" == bench.acquire("A", mode="upgrade:a", names=names)[0]
    bench.drop_holder()
    assert ["2"] == bench.acquire("A", mode="upgrade:a", wait=FOR_EVER, names=names)
    assert granted(bench, "b", "exclusive", names=names)


def test_an_upgrade_in_the_queue_whose_shared_hold_ended_is_passed_over(bench: Bench) -> None:
    for token in "ab":
        bench.acquire(token, mode="shared")
    bench.stand("A", mode="upgrade:a")
    bench.client.zadd(bench.keys.sharers, {"a": 1})
    bench.release("b")
    assert [] == bench.holders()
    assert [] == bench.queued()


def test_a_waiter_whose_place_expired_joins_again_at_the_end(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    for token in "wv":
        bench.listen(token)
    bench.queue_up("w")
    bench.drop_line()
    bench.queue_up("v")
    bench.queue_up("w")
    assert ["v", "w"] == bench.queued()


def test_an_upgrade_never_shortens_the_lease(bench: Bench) -> None:
    bench.acquire("a", mode="shared", lease=60_000)
    bench.acquire("A", mode="upgrade:a", lease=1000)
    assert bench.lease_left() > 50_000
    bench.give_up("A", mode="upgrade:a")
    ends = bench.client.zscore(bench.keys.sharers, "a")
    assert ends - int(bench.inspect()[0]) > 50_000


def test_claims_of_sharers_that_died_together_are_forgotten(bench: Bench) -> None:
    bench.acquire("a", mode="permit:2")
    bench.stand("w")
    stored.lose_sharers(bench.client, bench.keys.lock, bench.keys.sharers)
    bench.acquire("w", wait=FOR_EVER)
    bench.release("w")
    bench.acquire("b", mode="permit:2")
    assert b"1" == bench.client.hget(bench.keys.lock, "permit")


@pytest.mark.parametrize("mode", ["shared", "permit:2"])
@pytest.mark.parametrize("waited_for", [True, False])
def test_an_exclusive_hold_that_ended_does_not_count_again_when_others_share_or_have_shared(
    bench: Bench, mode: str, *, waited_for: bool
) -> None:
    bench.acquire("a")
    bench.end_lease()
    assert granted(bench, "b", mode)
    if waited_for:
        bench.stand("c")
    commit = (3, "SET", f"{bench.prefix}:late", "1")
    for holder in ("b", "c" if waited_for else None):
        assert ["0"] == bench.words(scripts.COMMIT, "a", *commit)
        assert not bench.release("a")
        assert holder == bench.holder()
        assert bench.release("b") == (holder == "b")
