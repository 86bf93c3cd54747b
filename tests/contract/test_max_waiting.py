"""`max_waiting`: whoever would be one more in the queue is refused at once."""

from __future__ import annotations

import asyncio

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.views import View

from redis_locks import (
    Hold,
    Lock,
    LockNotAvailable,
    LockTimeout,
    QueueFull,
    RedisLockMixin,
    Semaphore,
    redis_lock,
)
from redis_locks.testing import override_locks
from tests.elsewhere import in_thread
from tests.support.world import PATIENCE, Observer, World, held, queue, served, until


def refused(world: World, lock: Lock) -> QueueFull:
    with pytest.raises(QueueFull) as said:
        world.block(lock, lambda hold: None)
    return said.value


def test_one_more_than_may_wait_is_refused_at_once(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, max_waiting=2, wait=60)
    hold = held(world, lock)
    waiting = queue(world, lock, server_side, 2)
    error = refused(world, lock)
    assert isinstance(error, LockNotAvailable)
    assert "max_waiting=2 wait for it already" in str(error)
    assert name == error.name
    assert 0 < (error.retry_after or 0) <= 10
    assert 2 == server_side.waiters(name)
    world.release(hold)
    for each in waiting:
        served(world, each)
    assert set() == server_side.left_of(name)


def test_a_free_lock_is_granted_and_a_short_queue_joined(world: World, name: str) -> None:
    lock = Lock(name, max_waiting=1, wait=0.05)
    hold = held(world, lock)
    with pytest.raises(LockTimeout):
        world.block(lock, lambda hold: None)
    world.release(hold)
    assert world.block(lock, lambda hold: hold.is_lost) is False


def test_waiters_of_other_locks_of_that_name_count(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    waiting = queue(world, Lock(name), server_side, 2)
    refused(world, Lock(name, max_waiting=2))
    waiting += queue(world, Lock(name, max_waiting=3), server_side, 1)
    world.release(hold)
    for each in waiting:
        served(world, each)


def test_a_set_counts_in_each_queue(world: World, name: str, server_side: Observer) -> None:
    other = f"{name}-other"
    hold = held(world, Lock(name, other))
    (waiting,) = queue(world, Lock(other), server_side, 1)
    refused(world, Lock(name, other, max_waiting=1, wait=60))
    assert 0 == server_side.waiters(name)
    world.release(hold)
    served(world, waiting)


def test_permits_and_shared_holds_have_a_queue_as_well(
    world: World, name: str, server_side: Observer
) -> None:
    permits, sharers = Semaphore(f"{name}-permits", 1, max_waiting=1), f"{name}-shared"
    for first, next_one in (
        (permits, permits),
        (Lock(sharers, mode="shared"), Lock(sharers, max_waiting=1)),
    ):
        hold = held(world, first)
        (waiting,) = queue(world, next_one, server_side, 1)
        refused(world, next_one)
        world.release(hold)
        served(world, waiting)


def test_an_upgrade_goes_before_the_queue(world: World, name: str, server_side: Observer) -> None:
    hold, other = (held(world, Lock(name, mode="shared", max_waiting=1)) for _ in range(2))
    (waiting,) = queue(world, Lock(name), server_side, 1)
    upgraded = world.start(world.do, hold, "upgrade", wait=PATIENCE)
    server_side.until_waiters(name, 2)
    world.release(other)
    upgraded.result(PATIENCE)
    world.release(hold)
    served(world, waiting)


def test_of_many_at_once_exactly_so_many_wait(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, max_waiting=5, wait=PATIENCE)
    hold = held(world, lock)

    asking = [world.start(world.block, lock, lambda hold: None) for _ in range(30)]
    server_side.until_waiters(name, 5)
    until(lambda: sum(each.done() for each in asking) >= 25)
    world.release(hold)
    errors = [each.exception(PATIENCE) for each in asking]
    assert 25 == sum(isinstance(error, QueueFull) for error in errors)
    assert 5 == errors.count(None)


def test_views_answer_as_they_do_to_contention(
    world: World, name: str, server_side: Observer
) -> None:
    @redis_lock(name, max_waiting=1)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    @redis_lock(name, max_waiting=1)
    async def aview(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    class Locked(RedisLockMixin, View):
        lock_name = name
        lock_max_waiting = 1

        def post(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse()

    post = RequestFactory().post("/")
    hold = held(world, Lock(name))
    (waiting,) = queue(world, Lock(name), server_side, 1)
    answers = in_thread(view, post), asyncio.run(aview(post)), in_thread(Locked.as_view(), post)
    for answer in answers:
        assert 423 == answer.status_code
        assert int(answer["Retry-After"]) > 10  # the holder's lease, and the waiter's
    world.release(hold)
    served(world, waiting)
    assert 200 == view(post).status_code


@pytest.mark.parametrize("wait", [5, None])
def test_a_test_without_a_server_may_have_a_full_queue(name: str, wait: float | None) -> None:
    with override_locks("full"):
        with pytest.raises(QueueFull):
            Lock(name, max_waiting=3, wait=wait).__enter__()
        with pytest.raises(LockTimeout):
            Lock(name, wait=5).__enter__()
        with pytest.raises(LockNotAvailable):
            Lock(name, wait=0).__enter__()


@pytest.mark.parametrize(
    "options",
    [{"max_waiting": 0}, {"max_waiting": 1, "wait": 0}, {"max_waiting": 1_000_001}],
)
def test_what_would_let_nobody_wait_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_waiting"):
        redis_lock("x", **options)  # type: ignore[arg-type]
