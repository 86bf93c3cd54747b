"""A thread or task that takes a lock which it has already."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis

from redis_locks import (
    Hold,
    Lock,
    LockError,
    LockLost,
    LockNotAvailable,
    LockTimeout,
    Semaphore,
    key_beside,
    redis_lock,
)
from tests.elsewhere import is_free
from tests.support import leases
from tests.support.children import in_a_child
from tests.support.connections import listening
from tests.support.world import (
    PATIENCE,
    Observer,
    Tasks,
    Threads,
    World,
    granted,
    held,
    let_go,
    until,
)


def steps(world: World, first: Lock, second: Lock, check: Any) -> Any:
    """Enter `first`, and in it `second`, in one thread or task; `check` gets both holds."""

    async def in_task() -> Any:
        async with first as outer:
            async with second as inner:
                result = check(outer, inner)
            assert not outer.is_lost
            return result, outer

    def in_thread() -> Any:
        with first as outer:
            with second as inner:
                result = check(outer, inner)
            assert not outer.is_lost
            return result, outer

    return world.run(in_task()) if isinstance(world, Tasks) else in_thread()


def test_the_holder_takes_it_again_at_once_and_without_a_round_trip(
    world: World, name: str, own_side: Observer
) -> None:
    lock = Lock(name, lease=60)

    def check(outer: Hold, inner: Hold) -> int:
        assert inner is not outer
        assert (outer.token, outer.fencing_token) == (inner.token, inner.fencing_token)
        assert inner.token == own_side.holder(name)
        return own_side.commands()

    world.release(held(world, lock))  # connections and threads are there now
    with listening():
        before = own_side.commands()
        inside, _ = steps(world, lock, Lock(name, wait=0), check)
        assert 1 == inside - before
        assert 2 == own_side.commands() - before
    assert set() == own_side.left_of(name) - {"index"}


def test_the_last_to_be_released_releases_the_lock(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, reentrant="thread")

    async def in_task() -> list[Hold]:
        return [hold for _ in range(3) if (hold := await lock.aacquire(wait=0))]

    def in_thread() -> list[Hold]:
        return [hold for _ in range(3) if (hold := lock.acquire(wait=0))]

    holds = world.run(in_task()) if isinstance(world, Tasks) else in_thread()
    assert 3 == len(holds)
    for hold in (holds[0], holds[2]):
        world.release(hold)
        world.release(hold)  # a second time does nothing
    assert holds[1].token == server_side.holder(name)
    assert world.acquire(Lock(name), wait=0) is None
    world.release(holds[1])
    assert server_side.holder(name) is None


def test_another_thread_or_task_waits(world: World, name: str, hold: Hold) -> None:
    assert world.acquire(Lock(name), wait=0) is None
    world.release(hold)


def test_a_task_that_the_holder_starts_is_another_one(tasks: Tasks, name: str) -> None:
    async def parent() -> object:
        async with Lock(name):
            return await asyncio.create_task(Lock(name).aacquire(wait=0))

    assert tasks.run(parent()) is None


def test_asking_for_more_upgrades_until_the_end(world: World, name: str) -> None:
    def check(outer: Hold, inner: Hold) -> str:
        assert outer.fencing_token == inner.fencing_token
        assert not is_free(name, mode="shared")
        return inner.mode

    shared = Lock(name, mode="shared")
    (mode, outer) = steps(world, shared, Lock(name, wait=0), check)
    assert ("exclusive", "exclusive") == (mode, outer.mode)
    world.release(held(world, Lock(name), wait=0))


def test_an_upgrade_in_the_way_of_others_waits_and_leaves_the_outer_hold_shared(
    world: World, name: str
) -> None:
    other = held(world, Lock(name, mode="shared"))
    shared = Lock(name, mode="shared")
    with pytest.raises(LockTimeout):
        steps(world, shared, Lock(name, wait=0.05), None)
    world.release(other)
    (mode, _) = steps(world, shared, shared, lambda outer, inner: (outer.mode, inner.mode))
    assert ("shared", "shared") == mode
    world.release(held(world, Lock(name), wait=0))


@pytest.mark.parametrize("refused", ["replicas", "read"])
def test_an_upgrade_whose_block_is_refused_leaves_the_outer_hold_shared(
    name: str, client: redis.Redis, refused: str
) -> None:
    text = key_beside(name, "of-another-type")
    client.set(text, 1, ex=60)
    options: dict[str, Any] = (
        {"replicas": 1} if refused == "replicas" else {"read": [("HGET", text, "a")]}
    )
    with Lock(name, mode="shared") as outer:
        with pytest.raises(Exception, match=r"replicas|WRONGTYPE"):
            Lock(name, **options).acquire(wait=0)
        assert "shared" == outer.mode
        assert is_free(name, mode="shared")


def test_shared_inside_exclusive_stays_exclusive(world: World, name: str) -> None:
    mode, _ = steps(world, Lock(name), Lock(name, mode="shared"), lambda _, inner: inner.mode)
    assert "exclusive" == mode


def test_one_of_a_set_is_covered_by_the_set(world: World, name: str) -> None:
    both = Lock(f"{name}:a", f"{name}:b")
    _, outer = steps(world, both, Lock(f"{name}:b"), lambda *_: None)
    assert outer.remaining == 0
    world.release(held(world, both, wait=0))


def test_what_an_outer_block_covers_is_nested_there_though_an_inner_one_has_a_part_of_it(
    name: str,
) -> None:
    a, b, c = (f"{name}:{letter}" for letter in "abc")
    both = Lock(a, b, mode="shared", wait=0)
    with both as outer, Lock(b, c, mode="shared"):
        with both as inner:
            assert outer.token == inner.token
        with pytest.raises(LockError, match="would wait for its own thread"):
            Lock(a, b, wait=None).acquire()  # an upgrade would wait for the inner block
        assert not outer.is_lost


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Lock, lambda name: Lock(name, f"{name}:more", wait=None)),
        (Lock, lambda name: Semaphore(name, 2, wait=None)),
        (lambda name: Semaphore(name, 2), lambda name: Lock(name, wait=None)),
        (Lock, lambda name: Lock(name, wait=None, reentrant=False)),
        (
            lambda name: Lock(name, mode="shared"),
            lambda name: redis_lock(name, mode="shared", wait=None, reentrant=False),
        ),
    ],
    ids=["set", "permit", "permits", "not-reentrant", "not-reentrant-shared"],
)
def test_waiting_for_oneself_is_an_error_at_once(
    first: Any, second: Any, world: World, name: str
) -> None:
    with pytest.raises(LockError, match="would wait for its own thread or task"):
        steps(world, first(name), second(name), None)
    world.release(held(world, Lock(name), wait=0))


def test_each_acquire_of_a_semaphore_takes_a_permit(world: World, name: str) -> None:
    permits, tokens = Semaphore(name, 2, wait=0), set[str]()
    steps(world, permits, permits, lambda one, two: tokens.update((one.token, two.token)))
    assert 2 == len(tokens)


def test_who_has_the_last_permit_is_told_so_when_it_asks_for_another(
    world: World, name: str
) -> None:
    permits = Semaphore(name, 1, wait=0)
    with pytest.raises(LockNotAvailable, match="has a permit itself, in which no block is nested"):
        steps(world, permits, permits, None)


def test_reads_of_a_nested_hold_are_answered_now(
    world: World, name: str, client: redis.Redis
) -> None:
    client.set(f"{name}:data", "now", ex=60)
    reading = Lock(name, read=[("GET", f"{name}:data")])
    read, _ = steps(world, Lock(name), reading, lambda _, inner: inner.read)
    assert [b"now"] == read


def test_a_lost_hold_does_not_help_to_take_it_again(name: str) -> None:
    first = granted(Lock(name, lease=0.05, renew=False).acquire(wait=0))
    until(lambda: first.is_lost)
    second = granted(Lock(name).acquire(wait=PATIENCE))
    assert first.fencing_token < second.fencing_token
    with pytest.raises(LockLost):
        first.release()
    with second, Lock(name, wait=0) as nested:
        assert second.token == nested.token


def test_a_lease_that_ended_unnoticed_in_a_block_does_not_help_to_take_it_again(
    name: str, server_side: Observer
) -> None:
    def overstays() -> None:
        with Lock(name, lease=0.05, renew=False) as first:
            leases.stop_renewal(first)  # nobody watches it end
            until(lambda: server_side.holder(name) is None)
            second = held(Threads(), Lock(name))
            assert Lock(name).acquire(wait=0) is None
            second.release()

    with pytest.raises(LockLost):
        overstays()


def test_what_ends_the_hold_for_all_is_refused_inside(name: str, client: redis.Redis) -> None:
    with Lock(name, wait=0) as first:
        with Lock(name, wait=0) as inner:
            with pytest.raises(LockError, match="nested"):
                first.downgrade()
            with pytest.raises(LockError, match="nested"):
                inner.commit(client.pipeline().set(name, 1))
        first.downgrade()
    assert not client.exists(name)


def test_a_hold_released_by_another_thread_is_forgotten_here(name: str) -> None:
    hold = granted(Lock(name).acquire(wait=0))
    thread = threading.Thread(target=hold.release)
    thread.start()
    thread.join()
    again = granted(Lock(name).acquire(wait=0))
    assert again.fencing_token > hold.fencing_token
    again.release()


def test_a_dropped_hold_does_not_help_to_take_it_again(name: str) -> None:
    with pytest.warns(ResourceWarning) as told:  # noqa: PT031 - to be collected inside
        Lock(name, lease=1, renew=False).acquire(wait=0)
        until(lambda: let_go() or told)
    again = granted(Lock(name).acquire(wait=PATIENCE))
    again.release()


def test_a_dropped_nested_hold_leaves_the_outer_one(name: str, server_side: Observer) -> None:
    with Lock(name) as outer:
        with pytest.warns(ResourceWarning) as told:  # noqa: PT031 - to be collected inside
            Lock(name).acquire(wait=0)
            until(lambda: let_go() or told)
        outer.check()
        assert outer.token == server_side.holder(name)
    assert server_side.holder(name) is None


def test_a_forked_child_has_none_of_its_parent_s_holds(name: str) -> None:
    with Lock(name):
        assert "None" == in_a_child(lambda: Lock(name).acquire(wait=0))


def test_a_locked_function_may_call_itself(name: str) -> None:
    @redis_lock(name, wait=0)
    def countdown(number: int) -> int:
        return number and countdown(number - 1)

    assert 0 == countdown(5)


def test_a_nested_hold_has_the_lease_of_the_outer_one(name: str) -> None:
    with Lock(name, lease=60), Lock(name, lease=1) as nested:
        assert nested.remaining > 50
