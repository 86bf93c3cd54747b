"""Metrics of locks for Prometheus, as prometheus-client exposes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db.transaction import atomic
from prometheus_client import CollectorRegistry

from redis_locks import Lock, LockBackendError, LockLost, LockNotAvailable, Semaphore, redis_lock
from redis_locks.integrations.prometheus import PrometheusMetrics
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.testing import override_locks
from redis_locks.testing.server import EmbeddedServer
from tests.signals.conftest import IMPATIENT, deadlocked
from tests.support import stored, telemetry
from tests.support.world import PATIENCE, Observer, World, held, in_line, keys_of, until


class Metrics:
    """Reads one registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.source = PrometheusMetrics(self._registry)

    def get(self, metric: str, **labels: str) -> float:
        """Return a sample's value, added up over the labels that are not given."""
        found = [
            sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == f"redis_locks_{metric}" and labels.items() <= sample.labels.items()
        ]
        return sum(found)

    def values(self, label: str) -> set[str]:
        return {
            sample.labels[label]
            for family in self._registry.collect()
            for sample in family.samples
            if label in sample.labels
        }


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics()
    metrics.source.connect()
    yield metrics
    metrics.source.disconnect()


def test_a_free_lock_is_a_wait_of_nothing_and_a_hold(
    world: World, name: str, metrics: Metrics
) -> None:
    world.release(held(world, Lock(name)))
    assert 1 == metrics.get("wait_seconds_count", mode="exclusive", outcome="acquired")
    assert 0 == metrics.get("wait_seconds_sum")
    assert 1 == metrics.get("hold_seconds_count", mode="exclusive", outcome="released")
    assert 0 < metrics.get("hold_seconds_sum") < PATIENCE
    assert 0 == metrics.get("contended_total")


def test_a_wait_that_was_granted_counts_with_its_seconds(
    world: World, name: str, metrics: Metrics, server_side: Observer
) -> None:
    first = held(world, Lock(name))
    waiter = in_line(world, Lock(name, wait=PATIENCE), server_side)
    until(lambda: metrics.get("contended_total") == 1)
    world.release(first)
    world.release(waiter.result(PATIENCE))
    assert 2 == metrics.get("wait_seconds_count", outcome="acquired")
    assert 0 < metrics.get("wait_seconds_sum") < PATIENCE


@pytest.mark.parametrize(("wait", "outcome"), [(0, "not_available"), (0.02, "timed_out")])
def test_an_acquire_in_vain_counts_once(
    world: World, name: str, metrics: Metrics, wait: float, outcome: str
) -> None:
    hold = held(world, Lock(name))
    assert world.acquire(Lock(name), wait=wait) is None
    world.release(hold)
    assert 1 == metrics.get("contended_total")
    assert 1 == metrics.get("wait_seconds_count", outcome=outcome)
    assert 2 == metrics.get("wait_seconds_count")


def test_an_acquire_that_cannot_ask_counts_once(world: World, name: str, metrics: Metrics) -> None:
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using="unix:///nonexistent/redis.sock"), wait=0)
    assert 1 == metrics.get("wait_seconds_count", outcome="unavailable")
    assert 1 == metrics.get("wait_seconds_count")


def test_a_breaker_that_opens_and_closes_is_shown(name: str, metrics: Metrics) -> None:
    with EmbeddedServer(use_environment=False) as server:
        lock = Lock(name, using=f"{server.url}?socket_timeout=0.2")
        server.kill()

        def is_open() -> bool:
            with suppress(LockBackendError):
                lock.acquire(wait=0)
            return metrics.get("breaker_open", server=f"{server.url}?db=0") == 1

        until(is_open)
        server.restart()
        until(lambda: metrics.get("breaker_open", server=f"{server.url}?db=0") == 0)


def test_a_deadlock_counts(name: str, metrics: Metrics, settings: Any) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    deadlocked(name)
    assert 1 == metrics.get("wait_seconds_count", outcome="deadlock")
    assert 3 == metrics.get("hold_seconds_count")


def test_a_lost_hold_counts_under_the_label_of_its_acquire(
    world: World, name: str, metrics: Metrics, server_side: Observer
) -> None:
    """Though the renewal tells of it, in a thread or task of its own."""
    hold = held(world, Lock(name, lease=0.3))
    (lock,) = metrics.values("lock")
    stored.drop_holder(server_side.client, keys_of(name).lock)
    until(lambda: metrics.get("hold_seconds_count", outcome="lost"))
    with suppress(LockLost):
        world.release(hold)
    assert {lock} == metrics.values("lock")
    assert 1 == metrics.get("hold_seconds_count")


def test_a_template_is_the_label_of_all_locks_named_by_it(name: str, metrics: Metrics) -> None:
    @redis_lock(name + ":{number}")
    def work(number: int) -> None: ...

    for number in range(3):
        work(number)
    assert {name + ":{number}"} == metrics.values("lock")
    assert 3 == metrics.get("hold_seconds_count")


def test_a_block_has_the_function_it_is_in_as_label(name: str, metrics: Metrics) -> None:
    def pay(number: int) -> None:
        with redis_lock(f"{name}:{number}"):
            pass

    async def apay(number: int) -> None:
        async with redis_lock(f"{name}:{number}"):
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(apay(3), apay(4))

    pay(1)
    pay(2)
    asyncio.run(both())
    expected = {f"{__name__}.{each.__qualname__}" for each in (pay, apay)}
    assert expected == metrics.values("lock")


def test_a_kept_hold_ends_under_the_label_of_the_block_that_took_it(
    name: str, metrics: Metrics, transactional_db: None
) -> None:
    def pay() -> None:
        with redis_lock(name):
            pass

    with atomic():
        pay()
        assert 0 == metrics.get("hold_seconds_count")
    assert 1 == metrics.get("hold_seconds_count", lock=f"{__name__}.{pay.__qualname__}")


def test_permits_have_one_mode_whatever_the_capacity(name: str, metrics: Metrics) -> None:
    for capacity in (2, 3):
        with Semaphore(name, capacity):
            pass
    assert {"permit"} == metrics.values("mode")


def test_the_number_of_labels_is_bounded(
    name: str, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of decorators made for each call even the templates are without number."""
    telemetry.tell_apart(monkeypatch, locks=3)
    with override_locks("granted"):
        for number in range(10):
            redis_lock(f"{name}:{number}")(lambda: None)()
    assert {*(f"{name}:{number}" for number in range(3)), telemetry.OTHER} == metrics.values("lock")
    assert 7 == metrics.get("hold_seconds_count", lock=telemetry.OTHER)


def test_holds_without_an_end_are_forgotten(
    name: str, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry.keep_open(monkeypatch, holds=1)
    with override_locks("granted"), redis_lock(f"{name}:1"), redis_lock(f"{name}:2"):
        assert 1 == len(metrics.source._open)
    assert 1 == metrics.get("hold_seconds_count", lock=telemetry.OTHER)
    assert 2 == metrics.get("hold_seconds_count", outcome="released")
    assert 0 == len(metrics.source._open)


def test_after_disconnect_nobody_listens(name: str, metrics: Metrics) -> None:
    connected = {kind: len(signal.receivers) for kind, signal in LOCK_SIGNALS.items()}
    metrics.source.disconnect()
    for kind, signal in LOCK_SIGNALS.items():
        assert connected[kind] - 1 == len(signal.receivers)
    with override_locks("granted"), redis_lock(name):
        pass
    assert 0 == metrics.get("wait_seconds_count")


def test_a_refused_decorated_call_counts_under_its_template(name: str, metrics: Metrics) -> None:
    @redis_lock(name + ":{number}", wait=0)
    def work(number: int) -> None: ...

    with override_locks("busy"), pytest.raises(LockNotAvailable):
        work(1)
    labels = {"lock": name + ":{number}", "outcome": "not_available"}
    assert 1 == metrics.get("wait_seconds_count", **labels)
