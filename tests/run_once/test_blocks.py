"""`run_once` in blocks: an attempt, whose end is the verdict, and what cannot be done with it."""

from __future__ import annotations

import asyncio

import pytest

from redis_locks import AlreadyDone, DeadlockDetected, LockLost, inspection, redis_lock, run_once
from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, begun


def test_a_block_is_an_attempt_and_its_end_the_verdict(name: str) -> None:
    job = run_once(name, store_result=True)
    with pytest.raises(ValueError, match="broken"), job:
        raise ValueError("broken")
    with job as attempt:
        assert 2 == attempt.number
        attempt.done("second")
    with pytest.raises(AlreadyDone) as caught, job:
        pytest.fail("the body must not run")
    assert ("second", 2, name) == (caught.value.result, caught.value.attempt, caught.value.name)
    assert job.acquire() is None


def test_a_block_without_a_verdict_is_done(name: str) -> None:
    with run_once(name):
        pass
    assert "done" == run_once(name).status().state


def test_a_wait_for_the_attempt_in_whose_block_it_is_ends_as_a_deadlock(name: str) -> None:
    with run_once(name):
        with pytest.raises(DeadlockDetected):
            run_once(name).acquire(wait=None)
        with pytest.raises(DeadlockDetected), redis_lock(name, wait=None):
            pytest.fail("it is inside")


def test_an_async_block_is_an_attempt(tasks: AsyncWorkers, name: str) -> None:
    job = run_once(name, max_attempts=2)

    async def work(error: Exception | None) -> int:
        async with job as attempt:
            if error:
                raise error
            return attempt.number

    with pytest.raises(ValueError, match="broken"):
        tasks.run(work(ValueError("broken")))
    assert 2 == tasks.run(work(None))
    with pytest.raises(AlreadyDone):
        tasks.run(work(None))


def test_an_async_block_whose_attempt_is_lost_is_cancelled(tasks: AsyncWorkers, name: str) -> None:
    async def work() -> None:
        async with run_once(name):
            inspection.force_release(name)
            await asyncio.Event().wait()

    with pytest.raises(LockLost):
        tasks.run(work())


def test_the_block_of_an_attempt_ends_it(name: str) -> None:
    job = run_once(name)
    with pytest.raises(ValueError, match="broken"), begun(BlockingWorkers(), job):
        raise ValueError("broken")
    assert "ValueError: broken" == job.status().last_error


def test_an_attempt_is_neither_shared_nor_committed(records: Records, name: str) -> None:
    attempt = run_once(name).acquire()
    with pytest.raises(TypeError, match="cannot be shared"):
        attempt.downgrade()
    with pytest.raises(TypeError, match="ended with commit"):
        attempt.commit(records.client.pipeline())
    attempt.upgrade()
    attempt.done()


def test_a_block_needs_a_name() -> None:
    with pytest.raises(TypeError, match=r"a block needs run_once\('name'\)"), run_once():
        pass
