"""The time limit of a step ends with the step, however that ends."""

from __future__ import annotations

from time import monotonic

from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.time_limits import in_time, seconds_left
from redis_locks.testing.server import EmbeddedServer
from tests.support.interrupts import interrupt, sweep

LONG, SHORT = 1000.0, 10.0


async def step() -> float:
    return seconds_left(LONG)


def limited() -> float:
    driver, made = backend_for(None).driver, step()
    whole = in_time(driver, made, monotonic() + SHORT)
    try:
        return run_blocking(whole)
    finally:  # an interrupt may come before they begin
        whole.close()
        made.close()


def test_a_step_has_the_time_that_is_left() -> None:
    assert limited() <= SHORT
    assert seconds_left(LONG) == LONG


def test_an_interrupt_at_the_end_of_a_step_leaves_no_limit_for_what_comes_after_it() -> None:
    at = 1
    while interrupt(limited, at) is not None:
        assert seconds_left(LONG) == LONG, at
        at += 1
    assert at > 5


def test_a_step_inside_a_step_ends_with_the_outer_one() -> None:
    driver = backend_for(None).driver

    async def outer() -> float:
        return await in_time(driver, step(), monotonic() + LONG)

    assert run_blocking(in_time(driver, outer(), monotonic() + SHORT)) <= SHORT


def test_a_time_limit_gets_through_at_any_step_of_connecting(
    private_server: EmbeddedServer,
) -> None:
    """Also where redis-py takes it for one of its own."""
    driver = backend_for(private_server.url).driver

    def connect() -> None:
        link = run_blocking(driver.checkout())
        link.disconnect()
        driver.checkin(link)

    sweep(connect, 5, lambda _: None, kind=TimeoutError)
