"""The errors: one tree, and each survives a trip to another process."""

from __future__ import annotations

import copy
import pickle
from time import monotonic

import pytest
from django.db import OperationalError

import redis_locks
from redis_locks import (
    DeadlockDetected,
    LockError,
    LockLost,
    LockNotAvailable,
    LockTimeout,
    TooMuchContention,
)
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.errors import connection_error
from redis_locks.drivers.refusals import Redirected
from redis_locks.exceptions import Wait

ALL = [
    each
    for each in (getattr(redis_locks, name) for name in redis_locks.__all__)
    if isinstance(each, type) and issubclass(each, BaseException)
]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_is_a_lock_error_and_shows_its_message(kind: type[LockError]) -> None:
    assert issubclass(kind, LockError)
    assert "what happened" == str(kind("what happened"))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_pickles(kind: type[LockError], protocol: int) -> None:
    again = pickle.loads(pickle.dumps(kind("what happened"), protocol))  # noqa: S301 - our own
    assert kind is type(again)
    assert "what happened" == str(again)


def test_what_a_node_of_a_cluster_answers_keeps_its_details_when_pickled() -> None:
    error = Redirected("MOVED 3999 127.0.0.1:6381", "redis://node")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert str(error) == str(again)
    assert str(again).startswith("redis://node is one node of a cluster")
    assert (True, 3999, "127.0.0.1", 6381) == (again.for_good, again.slot, again.host, again.port)


@pytest.mark.parametrize("kind", [LockNotAvailable, LockTimeout])
def test_contention_keeps_its_details_when_pickled_or_copied(kind: type[LockNotAvailable]) -> None:
    error = kind("busy", "orders", "host pid 5", 2.5)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
        assert ("orders", "host pid 5", 2.5) == (again.name, again.holder, again.retry_after)
        assert "busy" == str(again)
        assert ("busy",) == again.args
        assert ["It is held by host pid 5."] == again.__notes__


def test_contention_is_what_a_database_reports_for_nowait() -> None:
    assert issubclass(LockNotAvailable, OperationalError)
    assert issubclass(LockTimeout, LockNotAvailable)
    assert "55P03" == LockTimeout.sqlstate
    assert not issubclass(LockLost, OperationalError)


def test_a_deadlock_keeps_its_circle_when_pickled_or_copied() -> None:
    circle = (Wait(("a", "b"), "exclusive", "host pid 5", "bank.py:7"),)
    error = DeadlockDetected("circle", circle)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
        assert circle == again.circle
        assert "circle" == str(again)
        assert [str(circle[0])] == again.__notes__
    assert "host pid 5 waits at bank.py:7 for 'a', 'b' (exclusive)" == str(circle[0])


def test_too_much_contention_is_what_a_database_reports_for_a_serialization_failure() -> None:
    assert issubclass(TooMuchContention, OperationalError)
    assert "40001" == TooMuchContention.sqlstate
    error = TooMuchContention("kept changing", ("a", "b"), 5)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
        assert (("a", "b"), 5) == (again.keys, again.attempts)
        assert "kept changing" == str(again)


def test_a_connection_that_took_too_long_says_so() -> None:
    endpoint = Endpoint.from_url("redis://localhost:1")
    assert "cannot be reached: no connection in time" in str(
        connection_error(TimeoutError(), endpoint, monotonic(), None)
    )
