"""`statistics.holds`: the past holds of a lock, if HISTORY keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from django.test import override_settings

from redis_locks import Lock, LockLost, inspection, statistics
from tests.support.parties import held
from tests.support.statistics import flush

MOST = 3


@pytest.fixture
def kept(name: str) -> Iterator[None]:
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name, "HISTORY": MOST}):
        yield
        flush()


def test_a_past_hold_says_who_when_and_how_it_ended(kept: None) -> None:
    with Lock("a", label="nightly") as hold:
        began = inspection.lock("a")
        token = hold.fencing_token
    with pytest.raises(LockLost), Lock("a"):
        inspection.force_release("a")
    flush()
    lost, released = statistics.holds("a")
    assert began
    assert ("released", token, "") == (released.outcome, released.fencing_token, released.detail)
    assert "nightly" in released.who
    assert -1 < released.began - (began.at - began.holders[0].held_for) < 10
    assert released.began <= released.ended
    assert "lost" == lost.outcome
    assert lost.detail


def test_the_latest_holds_are_kept(kept: None) -> None:
    for _ in range(2):
        tokens = []
        for _ in range(MOST + 2):
            with Lock("a") as hold:
                tokens.append(hold.fencing_token)
        flush()
    assert tokens[: -MOST - 1 : -1] == [hold.fencing_token for hold in statistics.holds("a")]
    assert statistics.holds("a") == asyncio.run(statistics.aholds("a"))


def test_without_the_setting_no_hold_is_kept(kept: None, name: str) -> None:
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        with held("a"):
            pass
        flush()
        assert [] == statistics.holds("a")
        assert ["acquired"] == [event.kind for event in statistics.events("a")]


def test_a_release_is_no_event_of_the_lock(kept: None) -> None:
    with held("a"):
        pass
    flush()
    assert 1 == len(statistics.holds("a"))
    assert ["acquired"] == [event.kind for event in statistics.events("a")]
