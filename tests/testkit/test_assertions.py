"""Assertions about locks: when they pass, when they fail, and what they say then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction

from redis_locks import Hold, Lock
from redis_locks.testing import (
    assert_locked,
    assert_not_held_across_commit,
    assert_released,
    override_locks,
)


def taken(name: str) -> Hold:
    # Of the block only: else the transaction would keep it and release it by itself.
    hold = Lock(name, wait=0, label="the test", scope="block").acquire()
    assert hold is not None
    return hold


def test_a_held_lock_is_locked_and_not_released(name: str) -> None:
    with Lock(name, label="the test"):
        assert_locked(name)
        with pytest.raises(AssertionError, match=rf"{name}' is held by .*\(the test\)"):
            assert_released(name)


def test_a_free_lock_is_released_and_not_locked(name: str) -> None:
    assert_released(name)
    with Lock(f"{name}:other"), pytest.raises(AssertionError, match=f"held are .*{name}:other"):
        assert_locked(name)


@override_locks("granted")
def test_without_any_hold_the_failure_says_so() -> None:
    with pytest.raises(AssertionError, match="'a' is not held; no lock is held"):
        assert_locked("a")


def test_a_name_that_cannot_be_one_is_an_error_not_a_failure() -> None:
    for check in (assert_locked, assert_released):
        with pytest.raises(ValueError, match="name must not be empty"):
            check("")


def check_commits(name: str) -> None:
    """What must hold in a test case's transaction as well as with real ones."""
    with assert_not_held_across_commit(name), Lock(name):
        pass

    with assert_not_held_across_commit(name):
        transaction.on_commit(taken(name).release)
        assert_locked(name)
    assert_released(name)

    left: list[Hold] = []
    with (
        pytest.raises(AssertionError, match=rf"{name}' is still held after COMMIT by .*the test"),
        assert_not_held_across_commit(name),
    ):
        left.append(taken(name))
    left[0].release()

    with Lock(name), assert_not_held_across_commit(name):
        pass

    with pytest.raises(ZeroDivisionError), assert_not_held_across_commit(name):
        left.append(taken(name)) or 1 / 0
    left[1].release()


@pytest.mark.django_db
def test_a_hold_must_end_with_its_transaction_within_a_test_case(name: str) -> None:
    check_commits(name)


@pytest.mark.django_db(transaction=True)
def test_a_hold_must_end_with_its_transaction(name: str) -> None:
    check_commits(name)


@pytest.mark.django_db(transaction=True)
def test_there_must_be_no_transaction_around_it(name: str) -> None:
    with (
        transaction.atomic(),
        pytest.raises(RuntimeError, match="durable"),
        assert_not_held_across_commit(name),
    ):
        pass


@pytest.mark.django_db
def test_the_holds_of_others_do_not_count(name: str, other_process: Callable[..., None]) -> None:
    with assert_not_held_across_commit(name):
        other_process(name)
        assert_locked(name)
