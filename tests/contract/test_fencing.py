"""Fencing tokens grow, whatever happens to the keys."""

from __future__ import annotations

from redis_locks import Hold, Lock
from tests.support import stored
from tests.support.world import PATIENCE, Observer, World, held, keys_of


def test_fencing_tokens_grow_from_hold_to_hold(world: World, name: str) -> None:
    fences = []
    for _ in range(20):
        hold = held(world, Lock(name))
        fences.append(hold.fencing_token)
        world.release(hold)
    assert sorted(set(fences)) == fences


def test_fencing_tokens_grow_in_the_order_of_hand_offs(
    world: World, name: str, server_side: Observer
) -> None:
    current = held(world, Lock(name))
    waiters = []
    for place in range(1, 5):
        waiters.append(world.start(world.acquire, Lock(name)))
        server_side.until_waiters(name, place)
    fences = [current.fencing_token]
    for waiter in waiters:
        world.release(current)
        current = waiter.result(PATIENCE)
        fences.append(current.fencing_token)
    world.release(current)
    assert sorted(set(fences)) == fences


def test_fencing_tokens_grow_after_everything_was_deleted(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    world.release(hold)
    server_side.client.flushall()
    after = held(world, Lock(name))
    world.release(after)
    assert after.fencing_token > hold.fencing_token


def test_fencing_tokens_grow_when_the_server_clock_stepped_back(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    world.release(hold)
    ahead = hold.fencing_token + 600_000_000
    stored.set_fence(server_side.client, keys_of(name).lock, ahead)
    after = held(world, Lock(name))
    world.release(after)
    assert ahead + 1 == after.fencing_token
