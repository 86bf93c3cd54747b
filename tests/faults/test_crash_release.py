"""With crash_release, a lock is free soon after its holder's process, whatever its lease."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest
import redis

from redis_locks import Lock, LockError
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.faults.processes import Crew
from tests.faults.proxy import Proxy
from tests.support import timings
from tests.support.connections import subscribers
from tests.support.world import PATIENCE, Observer, Tasks, Threads, World, held, until


@pytest.mark.parametrize("renew", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_waiter_has_the_lock_of_a_killed_holder_within_half_a_second(
    crew: Crew, name: str, *, renew: bool
) -> None:
    late = []
    for turn in range(3):
        lock = f"{name}:{turn}"
        holder, first, second = crew.hire(3)
        holder.ask("acquire", name=lock, lease=60, crash_release=True, renew=renew)
        crew.line_up(lock, first, second)
        killed = time.monotonic()
        holder.kill()
        granted = first.answer()
        assert granted["granted"]
        late.append(granted["at"] - killed)
        first.ask("release")
        assert second.answer()["granted"]
        second.ask("release")
    assert median(late) <= 0.5
    assert max(late) <= 3


def test_who_comes_later_and_does_not_wait_has_it_too(crew: Crew, name: str, world: World) -> None:
    (holder,) = crew.hire(1)
    holder.ask("acquire", name=name, lease=60, crash_release=True)
    assert world.acquire(Lock(name), wait=0) is None
    holder.kill()
    hold = None
    deadline = time.monotonic() + PATIENCE
    while hold is None and time.monotonic() < deadline:
        hold = world.acquire(Lock(name), wait=0)
    assert hold
    world.release(hold)


def test_a_holder_that_was_handed_the_lock_is_watched_too(crew: Crew, name: str) -> None:
    first, second, third = crew.hire(3)
    options = {"lease": 60, "crash_release": True}
    first.ask("acquire", name=name, **options)
    crew.line_up(name, second, third, **options)
    first.ask("release")
    assert second.answer()["granted"]
    second.kill()
    assert third.answer()["granted"]


def test_a_crowd_of_waiters_costs_the_server_little(crew: Crew, tasks: Tasks, name: str) -> None:
    """Those near an end of the line look often; they are enough."""
    (holder,) = crew.hire(1)
    holder.ask("acquire", name=name, lease=60, crash_release=True)

    async def granted_at() -> float:
        async with Lock(name, wait=None, lease=60):
            return time.monotonic()

    crowd = [tasks.submit(granted_at()) for _ in range(100)]
    crew.server_side.until_waiters(name, len(crowd))

    def commands_in_a_second() -> float:
        before, began = crew.server_side.commands(), time.monotonic()
        time.sleep(1)
        return (crew.server_side.commands() - before) / (time.monotonic() - began)

    # Each of them looks again after it came, and learns its place.
    until(lambda: max(commands_in_a_second() for _ in range(2)) < 300)
    killed = time.monotonic()
    holder.kill()
    assert crowd[0].result(PATIENCE) - killed <= 3
    for each in crowd:
        each.result(PATIENCE)


def test_without_it_the_lease_counts(crew: Crew, name: str) -> None:
    (holder,) = crew.hire(1)
    holder.ask("acquire", name=name, lease=60)
    holder.kill()
    assert Lock(name, crash_release=True).acquire(wait=0.6) is None


def test_a_holder_that_lives_keeps_it(world: World, name: str, server_side: Observer) -> None:
    """Longer than any look at it, and through a hold that ended before."""
    lock = Lock(name, lease=60, crash_release=True)
    world.release(held(world, lock))
    hold = held(world, lock)
    assert world.acquire(Lock(name), wait=0.8) is None
    assert hold.token == server_side.holder(name)
    world.release(hold)


def test_it_listens_before_it_holds_and_while_it_waits(
    name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.renewal_ends_after(monkeypatch, 0.1)
    other = in_thread(Lock(name, renew=False, lease=60).acquire)
    assert other
    waiter = Threads().start(Lock(name, lease=60, crash_release=True).acquire, wait=PATIENCE)
    until(lambda: client.pubsub_channels("redis_locks:holders:*"))
    time.sleep(0.5)  # several times as long as the connection stays without need
    assert client.pubsub_channels("redis_locks:holders:*")
    other.release()
    held_by_waiter = waiter.result(PATIENCE)
    assert held_by_waiter
    assert in_thread(Lock(name).acquire, wait=0.6) is None
    held_by_waiter.release()


def test_whose_connection_was_killed_listens_again_at_once(
    world: World, name: str, client: redis.Redis, settings: Any
) -> None:
    """However often; and asks for nothing meanwhile."""
    settings.REDIS_LOCKS = {"PREFIX": name}  # nobody else listens there
    hold = held(world, Lock("a", lease=60, crash_release=True))
    for _ in range(3):
        until(lambda: client.pubsub_channels(f"{name}:holders:*"))
        client.client_kill_filter(_type="pubsub", skipme=True)
        until(lambda: client.pubsub_channels(f"{name}:holders:*"), within=5)
    assert in_thread(Lock("a").acquire, wait=0) is None
    world.release(hold)


def test_whose_connection_a_router_forgot_listens_again(
    world: World, redis_server: EmbeddedServer, client: redis.Redis, name: str, settings: Any
) -> None:
    settings.REDIS_LOCKS = {"PREFIX": name}  # nobody else listens there
    others = subscribers(client)
    with Proxy(redis_server.url) as proxy, timings.connections_are_tested_after(0.2):
        hold = held(world, Lock("a", using=proxy.url, lease=60, crash_release=True))
        until(lambda: client.pubsub_channels(f"{name}:holders:*"))
        listening = subscribers(client) - others
        proxy.forget(b":holders:")
        until(lambda: listening - subscribers(client))  # not: while nobody listens, which is brief
        until(lambda: client.pubsub_channels(f"{name}:holders:*"))
        world.release(hold)


def test_it_cannot_be_given_away(name: str) -> None:
    with Lock(name, crash_release=True) as hold, pytest.raises(LockError, match="crash_release"):
        hold.detach()


def test_it_needs_the_server_to_listen(name: str) -> None:
    with EmbeddedServer(use_environment=False) as server:
        url = server.url
    with pytest.raises(LockError):
        Lock(name, using=url, crash_release=True, wait=0).acquire()


def test_it_is_for_exclusive_locks() -> None:
    with pytest.raises(ValueError, match="exclusive locks"):
        Lock("x", mode="shared", crash_release=True)
