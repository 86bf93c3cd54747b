"""A hold that was lost is told as such, once, by whoever finds out first."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

import pytest

from redis_locks import Hold, Lock, LockLost
from tests.signals.conftest import Heard
from tests.support import stored
from tests.support.world import Observer, World, held, keys_of, until


def test_a_revoked_hold_is_told_as_lost_once_by_renewal(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=2, renew=True))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    until(lambda: "lost" in heard.kinds)
    with pytest.raises(LockLost):
        world.release(hold)
    assert ["acquired", "lost"] == heard.kinds
    lost = heard.only("lost")
    assert "does not know" in lost.reason
    assert heard[0].since == lost.since
    assert 0 < lost.held <= monotonic() - lost.since


@pytest.mark.parametrize("verb", ["release", "extend"])
def test_a_hold_that_is_not_renewed_is_told_as_lost_when_its_holder_finds_out(
    world: World, name: str, heard: Heard, verb: str
) -> None:
    hold = held(world, Lock(name, lease=0.05, renew=False))
    until(lambda: hold.is_lost)
    if verb == "extend":
        with pytest.raises(LockLost):
            world.extend(hold, 1)
    for _ in range(2):
        with suppress(LockLost):
            world.release(hold)
    until(lambda: len(heard.kinds) > 1)  # by whoever found out first
    assert ["acquired", "lost"] == heard.kinds
    assert 0.05 == pytest.approx(heard[1].held)
    assert "its lease ended" == heard[1].reason


def test_what_a_closed_loop_left_behind_is_told_as_lost(name: str, heard: Heard) -> None:
    async def leave() -> Hold | None:
        return await Lock(name, lease=0.5).aacquire()

    left = asyncio.run(leave())
    until(lambda: "lost" in heard.kinds)
    assert left is not None
    assert left.is_lost


@pytest.mark.parametrize("verb", ["release", "commit"])
def test_a_loss_found_at_the_end_of_the_hold_is_told_once(
    world: World, name: str, heard: Heard, server_side: Observer, verb: str
) -> None:
    hold = held(world, Lock(name))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    argument = [server_side.client.pipeline().get(name)] * (verb == "commit")
    with pytest.raises(LockLost):
        world.do(hold, verb, *argument)
    with suppress(LockLost):
        world.release(hold)
    until(lambda: len(heard.kinds) > 1)  # by whoever found out first
    assert ["acquired", "lost"] == heard.kinds
    assert "does not know" in heard[1].reason
