"""How long something is asked again when connections break."""

from __future__ import annotations

from collections.abc import Coroutine
from math import inf
from typing import Any

import pytest

from redis_locks.drivers.base import CUT_SHORT, CutShort, LinkBroken, Unreachable, run_blocking
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import acquire, retry
from redis_locks.protocol.acquire import LockWait
from redis_locks.protocol.retry import TRIES, persist
from redis_locks.protocol.store import Request
from redis_locks.values.keys import set_keys


class FailingDriver:
    """Fails as told, and answers after that; its clock goes on only while it sleeps."""

    description = "a server"
    suspends = False
    background = None
    reply_timeout = inf
    breakers = ()

    def __init__(self, *failures: type[LinkBroken]) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.now = 100.0

    async def checkout(self) -> Any:
        self.asked += 1
        if self.failures and issubclass(self.failures[0], Unreachable):
            raise self.failures.pop(0)("refused")
        return self

    async def answer(self, link: Any) -> str:
        if self.failures:
            raise self.failures.pop(0)("broken")
        return "the answer"

    def checkin(self, link: Any) -> None: ...

    def drop_idle(self) -> None: ...

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def finish(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await coroutine


class UnreachableDriver(FailingDriver):
    """One whose server takes no connection, and whose client says nothing about retries."""

    def pause_after(self, failures: int) -> None: ...


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry.random, "uniform", lambda low, high: high)


def ask(
    driver: FailingDriver,
    monkeypatch: pytest.MonkeyPatch,
    until: float = inf,
    unreachable_until: float = inf,
) -> tuple[str, bool]:
    monkeypatch.setattr(retry, "monotonic", lambda: driver.now)
    return run_blocking(
        persist(driver, driver.answer, until, unreachable_until=unreachable_until)  # type: ignore[arg-type]
    )


def test_the_caller_waits_for_one_reply_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FailingDriver(*[LinkBroken] * 1000)
    driver.reply_timeout = 3.0
    with pytest.raises(LockBackendError, match="does not answer"):
        ask(driver, monkeypatch)
    assert pytest.approx(3.0) == driver.now - 100


def test_a_link_that_died_while_idle_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FailingDriver(LinkBroken)
    assert ("the answer", True) == ask(driver, monkeypatch)
    assert 100.0 == driver.now


def test_links_that_break_are_replaced_until_the_end_with_bounded_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FailingDriver(*[LinkBroken] * 30)
    assert ("the answer", True) == ask(driver, monkeypatch, until=110)
    assert 6 < driver.now - 100 < 30 * 0.25
    driver = FailingDriver(*[LinkBroken] * 1000)
    with pytest.raises(LockBackendError, match="broken"):
        ask(driver, monkeypatch, until=102)
    assert 102 <= driver.now < 102.3


def test_when_it_is_too_late_it_is_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for failure in (LinkBroken, Unreachable, CutShort):
        driver = FailingDriver(*[failure] * 10)
        with pytest.raises(LockBackendError):
            ask(driver, monkeypatch, until=0)
        assert 2 == driver.asked


def test_a_server_that_refuses_connections_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FailingDriver(*[Unreachable] * 10)
    with pytest.raises(LockBackendError):
        ask(driver, monkeypatch)
    assert TRIES == driver.asked
    assert driver.now < 100.5
    driver = FailingDriver(*[Unreachable] * 10)
    with pytest.raises(LockBackendError):
        ask(driver, monkeypatch, unreachable_until=100)
    assert 1 == driver.asked


def test_only_refusals_in_a_row_count(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [Unreachable] * (TRIES - 1)
    driver = FailingDriver(*refused, LinkBroken, *refused)
    assert ("the answer", True) == ask(driver, monkeypatch)


def test_whoever_cuts_connections_short_is_taken_for_a_server_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FailingDriver(*[CutShort] * 15)
    assert ("the answer", True) == ask(driver, monkeypatch, unreachable_until=100)
    driver = FailingDriver(*[CutShort] * 1000)
    with pytest.raises(LockBackendError):
        ask(driver, monkeypatch)
    assert CUT_SHORT <= driver.now - 100 < CUT_SHORT + 0.3


def test_a_waiter_outlasts_an_outage_of_any_length() -> None:
    """Also of so many failures that two to the power of their number is too large for a float."""
    driver = UnreachableDriver()
    request = Request(set_keys("p", 0, ("x",)), "token", 9000, "exclusive", "", names=("x",))
    waiter = LockWait(driver, request, None)  # type: ignore[arg-type]
    waiter.queued = True
    for _ in range(1200):
        run_blocking(waiter.reconnect(Unreachable("refused")))
    assert 100.0 + 1198 * 0.25 >= driver.now > 100.0 + 1190 * 0.125


def test_a_waiter_goes_on_until_its_wait_is_over_however_short_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = UnreachableDriver()
    monkeypatch.setattr(acquire, "monotonic", lambda: driver.now)
    request = Request(set_keys("p", 0, ("x",)), "token", 9000, "exclusive", "", names=("x",))
    waiter = LockWait(driver, request, 0.9)  # type: ignore[arg-type]
    waiter.queued = True

    async def go_on() -> None:
        while True:
            await waiter.reconnect(Unreachable("refused"))

    with pytest.raises(LockBackendError):
        run_blocking(go_on())
    assert pytest.approx(100.9) == driver.now
