"""What a thread or task has is known, also twice, or in a way in which no acquire finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Barrier
from typing import Any

import pytest

from redis_locks import DeadlockDetected, Lock, LockLost, Semaphore, run_once
from tests.support import sessions
from tests.support.world import PATIENCE, granted, until

Taking = Callable[[str], AbstractContextManager[Any]]


@contextmanager
def permit_of_two(name: str) -> Iterator[None]:
    with Semaphore(name, 2):
        with Semaphore(name, 2):
            pass
        yield


@contextmanager
def share_of_a_set(name: str) -> Iterator[None]:
    with Lock(name, mode="shared"):
        with Lock(name, f"{name}:more", mode="shared"):
            pass
        yield


def job(name: str) -> AbstractContextManager[Any]:
    return run_once(name)


@pytest.mark.parametrize("taking", [permit_of_two, share_of_a_set, job])
def test_a_deadlock_is_found_whatever_is_held(
    redis_server: object, name: str, settings: Any, taking: Taking
) -> None:
    settings.REDIS_LOCKS = {"DEADLOCK_TIMEOUT": 0.1}
    both = Barrier(2)

    def want(has: AbstractContextManager[Any], wanted: Lock) -> bool:
        with suppress(DeadlockDetected), has:
            both.wait(PATIENCE)
            with wanted:
                return True
        return False

    with ThreadPoolExecutor(2) as pool:
        other = Lock(f"{name}:other", wait=PATIENCE)
        parties = [
            pool.submit(want, taking(name), other),
            pool.submit(want, other, Lock(name, wait=PATIENCE)),
        ]
        assert [False, True] == sorted(party.result(PATIENCE) for party in parties)


def test_what_an_inner_hold_covered_is_found_again_when_that_has_ended(name: str) -> None:
    shared = Lock(name, mode="shared", wait=0)
    with shared as outer, share_of_a_set(name), shared as nested:
        assert outer.fencing_token == nested.fencing_token


def test_and_when_it_was_lost_before(name: str) -> None:
    shared = Lock(name, mode="shared", wait=0)
    inner = Lock(name, f"{name}:more", mode="shared", lease=0.05, renew=False)
    with shared as outer:
        lost = granted(inner.acquire())
        until(lambda: lost.is_lost)
        with Lock(f"{name}:other"), suppress(LockLost):
            lost.release()
        with shared as nested:
            assert outer.fencing_token == nested.fencing_token


@pytest.mark.parametrize("first", [0, 1, 2])
def test_in_whatever_order_they_end_the_session_has_what_is_left(name: str, first: int) -> None:
    permit = Semaphore(name, 3)
    with ExitStack() as stack:
        holds = [permit.acquire() for _ in range(3)]
        for hold in holds:
            assert hold
            stack.callback(hold.release)
        order = holds[first:] + holds[:first]
        for hold in order:
            assert sessions.holds_anything()
            assert hold
            hold.release()
    assert not sessions.holds_anything()
    assert sessions.remembers_nothing()
