"""Who connects whatever a breaker says does so only while it runs."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest

from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.breaker import Away, Breaker, BreakerState, Handshake, insisting
from tests.support.interrupts import interrupt


class Silent:
    """A server that never answers."""

    reply_timeout = 1.0
    may_have_successor = False

    def found(self, within: float | None = None) -> Handshake:
        return Handshake.UNHEARD


async def no_pause(_: float) -> None:
    pass


@pytest.fixture
def breaker() -> Breaker:
    found = Breaker("a server that never answers")
    for _ in range(2):
        found.failed(Silent(), 0.0, "it says nothing")
    found.check()
    assert found.state is BreakerState.OPEN
    return found


def admitted(breaker: Breaker) -> None:
    run_blocking(breaker.admit(no_pause))


def test_who_insists_is_admitted(breaker: Breaker) -> None:
    run_blocking(insisting(breaker.admit(no_pause)))
    with pytest.raises(Away):
        admitted(breaker)


def test_nobody_insists_after_an_interrupt_at_any_point(breaker: Breaker) -> None:
    async def nothing() -> Any:
        return None

    for at in count(1):
        inner = nothing()
        step = insisting(inner)
        found = interrupt(partial(run_blocking, step), at)
        step.close()
        inner.close()
        with pytest.raises(Away):
            admitted(breaker)
        if found is None:
            assert at > 5
            return
