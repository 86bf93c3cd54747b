"""The commit guard when the server cannot answer: `on_unavailable` decides about COMMIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest
from django.db.transaction import atomic
from django.test import override_settings

from redis_locks import Lock, LockBackendError, LockLost
from redis_locks.testing.server import EmbeddedServer
from tests.django.transactions import increment, values
from tests.support.breakers import silent
from tests.support.outages import BRIEF, RELEASE, going_away, lines, proceeding
from tests.support.world import until

pytestmark = pytest.mark.usefixtures("transactional_db", "nothing_stays_kept")

BRIEFLY = RELEASE
"""Seconds where the server is silent, and that is waited for."""

SLACK = 1.4
"""Seconds for a busy machine."""


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with going_away() as found:
        yield found


def commit_in_outage(database: str, name: str, server: EmbeddedServer, *locks: Lock) -> None:
    with atomic(using=database):
        for lock in locks:
            lock.acquire(wait=0)
        increment(database, name)
        server.kill()


def test_it_goes_on_and_the_hold_is_marked(
    database: str,
    name: str,
    server: EmbeddedServer,
    caplog: pytest.LogCaptureFixture,
    settings: Any,
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "ON_UNAVAILABLE": "proceed"}
    with atomic(using=database):
        with Lock(name, using=server.url, database=database) as hold:
            increment(database, name)
        assert not hold.is_unverified
        server.kill()
    assert [1] == values(database, name)
    assert hold.is_unverified
    assert len(lines(caplog, "COMMIT goes on")) == 1


def test_it_goes_on_though_the_lease_has_ended_in_the_outage(
    database: str, name: str, server: EmbeddedServer
) -> None:
    lock = proceeding(server, name, database=database, lease=BRIEF)
    with atomic(using=database):
        with lock as hold:
            increment(database, name)
        server.kill()
        until(lambda: hold.is_lost)
    assert [1] == values(database, name)
    assert hold.is_unverified


@pytest.mark.parametrize("on_unavailable", ["respond", "raise"])
def test_else_it_is_rolled_back(
    database: str, name: str, server: EmbeddedServer, on_unavailable: Any
) -> None:
    lock = Lock(name, using=server.url, database=database, on_unavailable=on_unavailable)
    with pytest.raises(LockBackendError):
        commit_in_outage(database, name, server, lock)
    assert [] == values(database, name)


@pytest.mark.parametrize("count", [1, 2])
def test_with_a_silent_server_it_ends_in_the_time_for_a_reply_of_each(
    database: str, name: str, server: EmbeddedServer, settings: Any, count: int
) -> None:
    began = 0.0
    with ExitStack() as servers, ExitStack() as silence:
        others = [EmbeddedServer(use_environment=False) for _ in range(count - 1)]
        asked = [server, *map(servers.enter_context, others)]

        def work() -> None:
            nonlocal began
            with atomic(using=database):
                for each in asked:
                    Lock(name, using=each.url, database=database).acquire(wait=0)
                increment(database, name)
                for each in asked:
                    silence.enter_context(silent(each))
                began = monotonic()

        timeouts = {**settings.REDIS_LOCKS, "REPLY_TIMEOUT": BRIEFLY}
        with override_settings(REDIS_LOCKS=timeouts), pytest.raises(LockBackendError):
            work()
        # After the guard, each hold is released.
        assert monotonic() - began < count * (BRIEFLY + RELEASE) + SLACK
    assert [] == values(database, name)


def test_one_lock_that_does_not_proceed_rolls_it_back(
    database: str, name: str, server: EmbeddedServer
) -> None:
    other = Lock(f"{name}:2", using=server.url, database=database)
    with pytest.raises(LockBackendError):
        commit_in_outage(database, name, server, proceeding(server, name, database=database), other)
    assert [] == values(database, name)


def test_a_server_that_is_back_and_knows_of_no_hold_rolls_it_back(
    database: str, name: str, server: EmbeddedServer
) -> None:
    """Somebody else may have had the lock meanwhile."""
    lock = proceeding(server, name, database=database, lease=BRIEF)

    def work() -> None:
        with atomic(using=database):
            with lock as hold:
                increment(database, name)
            with silent(server):
                until(lambda: hold.is_lost)

    with pytest.raises(LockLost):
        work()
    assert [] == values(database, name)
