"""What is told and counted of a hold that is given away and goes on elsewhere."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
from django.test import override_settings
from prometheus_client import CollectorRegistry

from redis_locks import Hold, Lock, LockLost, LockNotHeld, statistics
from redis_locks.integrations.prometheus import PrometheusMetrics
from tests.contract.test_transit import adopt
from tests.signals.conftest import Connect, Heard
from tests.support import stored
from tests.support.statistics import flush
from tests.support.world import PATIENCE, Observer, Tasks, World, granted, held, keys_of, until


def test_it_is_acquired_and_released_once_and_the_ways_of_it_are_told_in_between(
    world: World, name: str, heard: Heard
) -> None:
    before = monotonic()
    hold = held(world, Lock(name, label="the giver"))
    fencing_token = hold.fencing_token
    text = world.do(hold, "detach")
    world.release(adopt(world, text, label="the adopter"))
    assert ["acquired", "detached", "adopted", "released"] == heard.kinds
    assert [fencing_token] * 4 == [event.fencing_token for event in heard]
    labels = [event.who.label for event in heard if event.who]
    assert ["the giver"] * 2 + ["the adopter"] * 2 == labels
    _, detached, adopted, released = heard
    parts = (0, detached.held, adopted.held, released.held, monotonic() - before)
    # The giver counts from its question on, the server, from which the adopter has it, from the
    # grant on.
    assert all(one < other + 0.1 for one, other in pairwise(parts))
    assert adopted.since == released.since == pytest.approx(heard[0].since, abs=0.1)


def test_its_time_before_and_on_the_way_counts(world: World, name: str, heard: Heard) -> None:
    hold = held(world, Lock(name))
    leaves = monotonic() + 0.3
    until(lambda: monotonic() >= leaves)
    text = world.do(hold, "detach")
    arrives = monotonic() + 0.1
    until(lambda: monotonic() >= arrives)
    world.release(adopt(world, text))
    # Less what the grant took, from which the server counts.
    assert 0.35 <= heard.only("released").held


def test_extended_for_longer_than_its_lease_it_has_begun_as_early(
    world: World, name: str, heard: Heard
) -> None:
    hold = held(world, Lock(name, lease=PATIENCE))
    world.extend(hold, 3 * PATIENCE)
    world.release(adopt(world, world.do(hold, "detach")))
    assert 0 <= heard.only("released").held < PATIENCE


def test_lost_where_it_goes_on_it_is_told_there(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    adopted = adopt(world, world.do(held(world, Lock(name)), "detach"))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    with pytest.raises(LockLost):
        world.release(adopted)
    assert ["acquired", "detached", "adopted", "lost"] == heard.kinds


def test_an_adoption_in_vain_tells_nothing(world: World, name: str, heard: Heard) -> None:
    text = world.do(held(world, Lock(name)), "detach")
    world.release(adopt(world, text))
    with pytest.raises(LockLost):
        adopt(world, text)
    assert ["acquired", "detached", "adopted", "released"] == heard.kinds


def test_statistics_count_one_acquire_and_one_hold_of_its_whole_time(
    world: World, name: str
) -> None:
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        text = world.do(held(world, Lock(name)), "detach")
        arrived = monotonic() + 0.1
        until(lambda: monotonic() >= arrived)
        world.release(adopt(world, text))
        flush()
        (found,) = statistics.read().locks
        events = [event.kind for event in statistics.events(name)]
    assert (1, 0) == (found.acquired, found.contended)
    assert (0.0, 0.0) == (found.wait_p50, found.wait_p99)
    assert 0.08 < found.hold_p50 == found.hold_p99 < 5
    assert ["acquired"] == events


def test_metrics_count_one_acquire_where_it_was_and_one_hold_where_it_ends(
    world: World, name: str
) -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics.connect()
    try:
        text = world.do(held(world, Lock(name)), "detach")
        assert not metrics._open
        adopted = adopt(world, text)
        assert metrics._open
        world.release(adopted)
    finally:
        metrics.disconnect()
    counts = {
        (sample.name, sample.labels["outcome"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name.endswith("seconds_count")
    }
    assert {
        ("redis_locks_wait_seconds_count", "acquired"): 1,
        ("redis_locks_hold_seconds_count", "released"): 1,
    } == counts
    assert not metrics._open


@pytest.mark.parametrize("kind", ["detached", "adopted"])
def test_an_interrupt_in_a_receiver_leaves_nobody_with_it_who_does_not_know(
    name: str, heard: Heard, connect: Connect, server_side: Observer, kind: str
) -> None:
    def interrupt(event: Any, **_: object) -> None:
        raise KeyboardInterrupt

    hold = granted(Lock(name, lease=60).acquire(wait=0))
    connect(kind, interrupt)
    with pytest.raises(KeyboardInterrupt):
        Hold.adopt(hold.detach())
    if kind == "detached":
        hold.check()
        assert hold.token == server_side.holder(name)
        hold.release()
        assert ["acquired", "detached", "released"] == heard.kinds
    else:
        with pytest.raises(LockNotHeld):
            hold.check()
        assert ["acquired", "detached", "adopted", "released"] == heard.kinds
    assert server_side.holder(name) is None


def test_a_task_cancelled_while_it_adopts_tells_what_it_had(
    tasks: Tasks, name: str, heard: Heard, server_side: Observer, connect: Connect
) -> None:
    async def forever(event: Any, **_: object) -> None:
        await tasks.loop.create_future()

    text = tasks.do(held(tasks, Lock(name)), "detach")
    connect("adopted", forever)
    adopting = tasks.submit(Hold.aadopt(text))
    until(lambda: "adopted" in heard.kinds)
    adopting.cancel()
    until(lambda: heard.kinds[-1] == "released")
    until(lambda: server_side.holder(name) is None)
    with suppress(LockLost):
        tasks.run(Hold.aadopt(text))
