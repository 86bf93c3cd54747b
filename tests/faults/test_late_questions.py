"""What a client sent on a broken connection comes late: it gives an ended token nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redis_locks import Lock, LockTimeout, Semaphore, run_once
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, Observer, World, held, in_line, until

WAYS: dict[str, Callable[..., Any]] = {
    "exclusive": Lock,
    "shared": lambda name, **options: Lock(name, mode="shared", **options),
    "a permit": lambda name, **options: Semaphore(name, 1, **options),
    "a set": lambda name, **options: Lock(name, f"other-{name}", **options),
    "a set that is read": lambda name, **options: Lock(
        name, f"other-{name}", read=[("GET", f"data:{name}")], **options
    ),
}


@pytest.fixture
def server_side(client: redis.Redis, name: str) -> Iterator[Observer]:
    """The server's side of the test's locks; only the record of a job is left in the end."""
    made = Observer(client)
    yield made
    assert {"run"} >= made.left_of(name) | made.left_of(f"other-{name}")


def connected(world: World, lock: Any) -> Any:
    """Return `lock`, over whose connection a cycle has run: the server knows the scripts."""
    world.release(held(world, lock))
    return lock


@pytest.mark.parametrize("losses", [1, 3])
@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_a_released_token_does_not_hold_again(
    world: World, name: str, proxy: Proxy, server_side: Observer, make: Any, losses: int
) -> None:
    lock = connected(world, make(name, using=proxy.url))
    proxy.lose(1, losses=losses, late=True)
    hold = held(world, lock)
    world.release(hold)
    assert losses == proxy.deliver()


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"shared"}))  # nobody waits for a shared hold
def test_a_question_that_comes_during_the_hold_is_not_granted_after_it(
    world: World, name: str, proxy: Proxy, server_side: Observer, way: str
) -> None:
    lock = connected(world, WAYS[way](name, using=proxy.url))
    proxy.lose(1, late=True)
    hold = held(world, lock)
    assert 1 == proxy.deliver()
    assert 0 == server_side.waiters(name)
    world.release(hold)


def test_a_waiter_stands_in_line_once(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    lock = connected(world, Lock(name, using=proxy.url, wait=PATIENCE))
    first = held(world, Lock(name))
    proxy.lose(1, late=True)
    waiter = in_line(world, lock, server_side)
    assert 1 == proxy.deliver()
    assert 1 == server_side.waiters(name)
    world.release(first)
    world.release(waiter.result(PATIENCE))


@pytest.mark.parametrize("wait", [0, 0.2])
def test_a_token_that_was_refused_does_not_hold_when_the_lock_is_free(
    world: World, name: str, proxy: Proxy, server_side: Observer, wait: float
) -> None:
    lock = connected(world, Lock(name, using=proxy.url, wait=wait))
    first = held(world, Lock(name))
    proxy.lose(1, late=True)
    assert world.acquire(lock) is None
    world.release(first)
    assert 1 == proxy.deliver()


def test_a_committed_token_does_not_hold_again(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    lock = connected(world, Lock(name, using=proxy.url))
    with redis.Redis.from_url(proxy.url) as client:
        proxy.lose(1, late=True)
        hold = held(world, lock)
        pipe = client.pipeline()
        pipe.incr(f"data:{name}")
        world.do(hold, "commit", pipe)
    assert 1 == proxy.deliver()
    assert b"1" == server_side.client.get(f"data:{name}")


def test_an_upgrade_that_was_given_up_does_not_take_the_shared_hold_away(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, connected(world, Lock(name, mode="shared", using=proxy.url)))
    other = held(world, Lock(name, mode="shared"))
    proxy.lose(1, late=True)
    with pytest.raises(LockTimeout):
        world.do(hold, "upgrade", wait=0.1)
    world.release(other)
    assert 1 == proxy.deliver()
    assert server_side.holder(name) is None  # not exclusively
    world.extend(hold, 10)
    world.release(hold)


def test_an_attempt_at_a_job_that_has_failed_is_not_begun_again(
    name: str, proxy: Proxy, server_side: Observer
) -> None:
    job = run_once(name, using=proxy.url, max_attempts=3)
    assert "new" == job.status().state  # so it is connected
    proxy.lose(1, late=True)
    with pytest.raises(KeyError), job:
        raise KeyError
    assert 1 == proxy.deliver()
    known = job.status()
    assert ("failed", 1) == (known.state, known.attempts)
    assert server_side.holder(name) is None


def test_nobody_waits_for_the_lease_of_a_token_that_has_ended(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    """A crowd, of whose questions some come late, goes on: a lease would outlast the test."""

    def lock() -> Lock:
        return Lock(name, using=proxy.url, lease=10 * PATIENCE, wait=5 * PATIENCE)

    connected(world, lock())
    proxy.lose(5, every=7, late=True)
    delivered = 0
    for _ in range(20):
        waiters = [world.start(world.acquire, lock()) for _ in range(4)]
        while waiters:
            until(lambda: any(each.done() for each in waiters))  # noqa: B023 - called at once
            granted = next(each for each in waiters if each.done())
            waiters.remove(granted)
            world.release(granted.result())
        delivered += proxy.deliver()
    lost = proxy.lost
    assert delivered + proxy.deliver() > 10, lost
