"""What a waiter believes of a grant that it was told: never more than the server does."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from redis_locks.drivers.base import run_blocking
from redis_locks.protocol import store
from redis_locks.protocol.acquire import LockWait
from redis_locks.protocol.store import Granted, Refused, Request, Won
from redis_locks.values.keys import set_keys

LEASE = 10.0
REFUSED_AT = 1_000_000
"""When the server said that the waiter is to wait, by its own clock in ms."""


REPLY = Refused(REFUSED_AT, REFUSED_AT + 5000, "")


def waiter() -> LockWait:
    driver: Any = SimpleNamespace(suspends=False, reply_timeout=2.0)
    request = Request(set_keys("p", 0, ("x",)), "token", int(LEASE * 1000), "exclusive", "")
    return LockWait(driver, request, None)


def told(granted_at: int, *, asked: float) -> Won | None:
    """What becomes of a grant, after a reply to a question asked on this process's clock.

    `asked` is the time of that question.
    """
    return waiter().won_by(Granted(7, granted_at), REPLY, asked)


def test_a_grant_counts_from_when_it_was_made_and_not_from_when_it_was_heard() -> None:
    asked = monotonic() - 3
    won = told(REFUSED_AT + 1000, asked=asked)
    assert won is not None
    assert pytest.approx(asked + 1 + LEASE) == won.deadline


def test_a_grant_from_before_the_latest_reply_has_ended() -> None:
    """The reply said that the waiter does not hold: what it was granted before is over."""
    assert told(REFUSED_AT - 1, asked=monotonic()) is None
    assert told(REFUSED_AT, asked=monotonic()) is not None


def test_a_grant_counts_from_no_later_than_it_was_heard_if_the_server_s_clock_was_set_forward() -> (
    None
):
    won = told(REFUSED_AT + 3_600_000, asked=monotonic())
    assert won is not None
    assert won.deadline <= monotonic() + LEASE


def test_a_grant_that_is_heard_after_its_lease_is_none() -> None:
    assert told(REFUSED_AT + 1000, asked=monotonic() - 1 - LEASE) is None


@pytest.mark.parametrize("fence", [store.LOOK, -2, -3])
def test_what_is_told_with_no_fencing_token_is_no_grant(fence: int) -> None:
    link: Any = None
    message = f"token {fence} {REFUSED_AT + 1000}".encode()
    assert run_blocking(waiter().heard(link, message, REPLY, monotonic())) is None
    granted = run_blocking(waiter().heard(link, b"token 7 1001000", REPLY, monotonic()))
    assert isinstance(granted, Won)
