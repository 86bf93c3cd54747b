"""The registry of leases: when each is due, and which are forgotten."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, Self

import pytest

from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.protocol.callers import new_session
from redis_locks.protocol.lease import Lease, State
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.protocol.renewal import Registry, note, renew
from redis_locks.values.keys import set_keys
from tests.support.leases import NobodyRenews


class Clock:
    def __init__(self) -> None:
        # From the real time on: the thread that renews this process's holds reads this clock too.
        self.now = monotonic()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    for module in ("protocol.renewal", "protocol.lease"):
        monkeypatch.setattr(f"redis_locks.{module}.monotonic", made)
    return made


def add(registry: Registry, lease: Lease) -> None:
    registry.leases[lease.token] = weakref.ref(lease)


def lease_of(seconds: float, deadline: float, name: str = "x") -> Lease:
    plan = Plan(Terms("exclusive", int(seconds * 1000)), (name,), set_keys("p", 0, (name,)))
    lease = Lease(plan, new_session(), NobodyRenews(), f"token-{name}")
    lease.win(deadline, 1)
    return lease


def test_a_lease_is_due_a_third_of_its_length_after_the_last_renewal(clock: Clock) -> None:
    registry = Registry([].append)
    lease = lease_of(9, clock.now + 9)
    add(registry, lease)
    due, pause = registry.take_due()
    assert ([], 3) == (due, pytest.approx(pause))
    clock.now += 3.1
    assert ([lease], 0) == registry.take_due()


def test_a_lease_that_is_due_takes_along_those_that_are_due_soon(clock: Clock) -> None:
    registry = Registry([].append)
    leases = [lease_of(9, clock.now + 9 + late, str(late)) for late in (0, 0.2, 0.4)]
    ending = lease_of(9, clock.now + 3.1, "ending")
    ending.stop_renewing()
    for lease in (*leases, ending):
        add(registry, lease)
    clock.now += 2.9
    assert [] == registry.take_due()[0]
    clock.now += 0.11
    assert set(leases[:2]) == set(registry.take_due()[0])


def test_the_earliest_lease_sets_the_alarm_and_nothing_to_do_means_idle(clock: Clock) -> None:
    registry = Registry([].append)
    assert ([], registry.IDLE) == registry.take_due()
    leases = [lease_of(seconds, clock.now + seconds, str(seconds)) for seconds in (9, 3, 6)]
    for lease in leases:
        add(registry, lease)
    assert 1 == pytest.approx(registry.take_due()[1])


def test_what_goes_wrong_in_a_block_that_is_told_of_its_loss_is_nobody_elses_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost: list[Lease] = []
    registry = Registry(lost.append)
    lease = lease_of(3, monotonic() + 3)
    lease.watch_loss(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    add(registry, lease)
    registry.revoke(lease.token)
    assert ([lease], 0) == (lost, len(registry))
    assert "ZeroDivisionError" in caplog.text


def test_a_failed_renewal_is_repeated_after_a_tenth_of_the_lease(clock: Clock) -> None:
    lease = lease_of(10, clock.now + 10)
    clock.now += 4
    note(lease, LinkBroken("gone"), clock.now)
    assert 1 == pytest.approx(lease.due - clock.now)
    assert lease.state is not State.LOST


def test_not_held_in_the_middle_of_an_upgrade_is_no_loss_and_not_asked_again_at_once(
    clock: Clock,
) -> None:
    lease = lease_of(10, clock.now + 1)
    assert lease.begin_upgrade("the new token")
    note(lease, f"{lease.token} 0".encode(), clock.now)
    assert lease.state is not State.LOST
    assert clock.now + 1 == lease.due


def test_not_held_is_no_loss_if_it_was_asked_before_an_upgrade_ended(clock: Clock) -> None:
    """In vain, for example: the hold was shared again when the answer came."""
    lease = lease_of(10, clock.now + 1)
    assert lease.begin_upgrade("the new token")
    sent = clock.now
    clock.now += 0.1
    lease.end_upgrade("another token")
    assert lease.is_upgrading
    lease.end_upgrade("the new token")
    assert not lease.is_upgrading
    note(lease, f"{lease.token} 0".encode(), sent)
    assert lease.state is not State.LOST
    note(lease, f"{lease.token} 0".encode(), sent + 0.2)
    assert lease.state is State.LOST


class SlowDriver:
    """Each call takes a while, and its reply comes with those of all calls that were sent with it.

    Meanwhile the holders look at their holds.
    """

    def __init__(self, clock: Clock, each: float, leases: list[Lease]) -> None:
        self._clock = clock
        self._each = each
        self._leases = leases
        self.calls = 0

    async def checkout(self) -> Self:
        return self

    def checkin(self, link: object) -> None: ...

    async def call_many(self, script: object, calls: Sequence[Any]) -> list[bytes]:
        self.calls += len(calls)
        for _ in range(10):
            self._clock.now += self._each * len(calls) / 10
            for lease in self._leases:
                lease.is_over()
        return [f"{token} 1 0 {milliseconds}".encode() for _, (token, milliseconds) in calls]


def test_many_holds_of_a_slow_process_or_server_are_all_kept(clock: Clock) -> None:
    """One by one they take most of a lease. A hold does not wait for the renewals of all others."""
    lost: list[Lease] = []
    registry = Registry(lost.append)
    leases = [lease_of(10, clock.now + 10, str(number)) for number in range(1_500)]
    for lease in leases:
        add(registry, lease)
    driver = SlowDriver(clock, 6 / len(leases), leases)
    for _ in range(10):
        due, pause = registry.take_due()
        run_blocking(renew(driver, due))  # type: ignore[arg-type]
        clock.now += pause
    assert [] == lost
    assert 3 * len(leases) <= driver.calls


def test_a_renewal_that_is_noted_late_keeps_a_hold_that_nobody_found_lost(clock: Clock) -> None:
    lease, seen = (lease_of(3, clock.now + 3, name) for name in "ab")
    clock.now += 2
    sent = clock.now
    clock.now += 2
    assert seen.is_over()
    for each in (lease, seen):
        note(each, f"{each.token} 1 0 3000".encode(), sent)
    assert not lease.is_over()
    assert pytest.approx(sent + 3) == lease.deadline
    assert seen.is_over()


class SilentDriver(SlowDriver):
    """Each call ends with its timeout of 5 s."""

    def drop_idle(self) -> None: ...

    async def call_many(self, script: object, calls: Sequence[Any]) -> list[bytes]:
        self.calls += 1
        self._clock.now += 5
        raise LinkBroken


def test_a_server_that_is_silent_is_asked_for_the_first_part_of_many_holds_only(
    clock: Clock,
) -> None:
    """Whoever waits for a timeout for each part notices no loss meanwhile.

    The others are due again soon.
    """
    registry = Registry(lambda _: None)
    leases = [lease_of(60, clock.now + 60, str(number)) for number in range(1_500)]
    for lease in leases:
        add(registry, lease)
    clock.now += 30
    due, _ = registry.take_due()
    assert len(leases) == len(due)
    driver = SilentDriver(clock, 0, leases)
    run_blocking(renew(driver, due))  # type: ignore[arg-type]
    assert 2 == driver.calls  # and once more on a new connection
    clock.now += 10
    due, _ = registry.take_due()
    assert len(leases) == len(due)
