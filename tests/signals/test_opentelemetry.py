"""Spans and metrics of locks, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from redis_locks import Lock, LockLost, redis_lock
from redis_locks.testing import override_locks
from tests.signals.conftest import IMPATIENT, deadlocked
from tests.support import stored
from tests.support.telemetry import BUCKETS, open_telemetry
from tests.support.world import PATIENCE, Observer, World, granted, held, in_line, keys_of, until


class Exported:
    """What was exported so far."""

    def __init__(self) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self._reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.source = open_telemetry(self.tracers, self.meters)

    def spans(self, start: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name.startswith(start)]

    def points(self, metric: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == f"redis_locks.{metric}"
            for point in found.data.data_points
        ]


@pytest.fixture
def exported() -> Iterator[Exported]:
    exported = Exported()
    exported.source.connect()
    yield exported
    exported.source.disconnect()
    exported.tracers.shutdown()
    exported.meters.shutdown()


def test_a_hold_is_a_span_as_long_as_the_hold(world: World, name: str, exported: Exported) -> None:
    before = time.time_ns()
    hold = held(world, Lock(name))
    fencing_token = hold.fencing_token
    world.release(hold)
    (span,) = exported.spans("lock")
    # The steps of a wall clock and a monotonic one differ a little.
    assert before - 50_000_000 < span.start_time < span.end_time < time.time_ns() + 50_000_000
    assert span.name == f"lock hold {span.attributes['redis_locks.lock']}"
    expected = {
        "redis_locks.lock": span.attributes["redis_locks.lock"],
        "redis_locks.name": name,
        "redis_locks.mode": "exclusive",
        "redis_locks.outcome": "released",
        "redis_locks.fencing_token": fencing_token,
    }
    assert expected == dict(span.attributes)
    assert StatusCode.UNSET is span.status.status_code


def test_a_wait_is_a_span_with_who_was_in_the_way(
    world: World, name: str, exported: Exported
) -> None:
    hold = held(world, Lock(name, label="the first"))
    assert world.acquire(Lock(name), wait=0.05) is None
    world.release(hold)
    (span,) = exported.spans("lock wait")
    assert 50_000_000 <= span.end_time - span.start_time
    assert "timed_out" == span.attributes["redis_locks.outcome"]
    assert "the first" in span.attributes["redis_locks.holder"]
    assert StatusCode.ERROR is span.status.status_code


def test_a_granted_wait_is_a_span_and_a_free_lock_is_none(
    world: World, name: str, exported: Exported, server_side: Observer
) -> None:
    first = held(world, Lock(name))
    waiter = in_line(world, Lock(name, wait=PATIENCE), server_side)
    world.release(first)
    world.release(waiter.result(PATIENCE))
    (span,) = exported.spans("lock wait")
    assert "acquired" == span.attributes["redis_locks.outcome"]
    assert StatusCode.UNSET is span.status.status_code
    assert 2 == len(exported.spans("lock hold"))


def test_a_deadlock_is_an_error_with_its_circle(
    name: str, exported: Exported, settings: Any
) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    victim = deadlocked(name)
    (span,) = [s for s in exported.spans("lock wait") if s.status.status_code is StatusCode.ERROR]
    assert "deadlock" == span.status.description
    assert tuple(map(str, victim.circle)) == span.attributes["redis_locks.circle"]


def test_spans_are_children_of_the_span_that_acquired(
    name: str, exported: Exported, server_side: Observer
) -> None:
    """A lost hold as well, of which the renewal tells in a thread of its own."""
    tracer = exported.tracers.get_tracer("the test")
    with tracer.start_as_current_span("request") as request:
        hold = granted(Lock(name, lease=2).acquire())
        with tracer.start_as_current_span("inside"), redis_lock(f"{name}:2"):
            pass
    stored.drop_holder(server_side.client, keys_of(name).lock)
    until(lambda: 2 == len(exported.spans("lock hold")))
    with pytest.raises(LockLost):
        hold.release()
    inner, lost = exported.spans("lock hold")
    (inside,) = exported.spans("inside")
    assert inside.context.span_id == inner.parent.span_id
    assert request.get_span_context().span_id == lost.parent.span_id
    assert request.get_span_context().trace_id == lost.context.trace_id
    assert StatusCode.ERROR is lost.status.status_code
    assert "Redis does not know our hold any more" == lost.status.description


def test_span_names_and_metrics_have_the_template_and_never_the_name(
    name: str, exported: Exported
) -> None:
    @redis_lock("{name}:{number}", wait=3)
    def work(name: str, number: int) -> None: ...

    with override_locks("granted"):
        for number in range(3):
            work(name, number)
    assert {"lock hold {name}:{number}"} == {span.name for span in exported.spans("lock")}
    (hold,) = exported.points("hold.duration")
    (wait,) = exported.points("wait.duration")
    assert (3, 3) == (hold.count, wait.count)
    assert "{name}:{number}" == hold.attributes["redis_locks.lock"]
    assert tuple(BUCKETS) == hold.explicit_bounds
    assert {"redis_locks.lock", "redis_locks.mode", "redis_locks.outcome"} == set(wait.attributes)


def test_contention_is_counted(world: World, name: str, exported: Exported) -> None:
    hold = held(world, Lock(name))
    for _ in range(2):
        assert world.acquire(Lock(name), wait=0) is None
    world.release(hold)
    assert [2] == [point.value for point in exported.points("contended")]
    # A refusal without a wait is no error.
    for span in exported.spans("lock wait"):
        assert "not_available" == span.attributes["redis_locks.outcome"]
        assert StatusCode.UNSET is span.status.status_code
