"""Spans and metrics for OpenTelemetry: REDIS_LOCKS = {"TELEMETRY": ["opentelemetry"]}.

Needs opentelemetry-api. The application sets up the SDK, before or after.

| span | when |
|---|---|
| ``lock wait LOCK`` | an acquire that waited, or was refused |
| ``lock hold LOCK`` | a hold, from its beginning to its end |

Spans are children of the span in which the lock was acquired. They are made when they end. So the
spans of the code under the lock are siblings of the hold's span, not its children.
Attributes: ``redis_locks.name``, ``.lock``, ``.mode``, ``.outcome`` and, where they exist,
``.fencing_token``, ``.holder`` (the holder that was in the way) and ``.circle`` (the waits of a
deadlock). Lost holds, deadlocks and unsuccessful waits are errors.

| metric | attributes | what |
|---|---|---|
| ``redis_locks.contended`` | lock, mode | acquires that found the lock held by somebody else |
| ``redis_locks.wait.duration`` | lock, mode, outcome | histogram in seconds, of all acquires |
| ``redis_locks.hold.duration`` | lock, mode, outcome | histogram in seconds |
| ``redis_locks.breaker.open`` | server | 1 while calls fail at once, else 0 |

See `telemetry.Labels` for the labels; here they begin with ``redis_locks.``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from opentelemetry import metrics, trace
from opentelemetry.context import Context, get_current
from opentelemetry.util.types import AttributeValue

from redis_locks.integrations.telemetry import BUCKETS, Labels, Telemetry
from redis_locks.protocol.lock_events import LockEvent

_NAME = "redis_locks"


class OpenTelemetry(Telemetry):
    """Sends spans and metrics to these providers, from `connect` on.

    Args:
        tracer_provider: None: the global one.
        meter_provider: None: the global one.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        super().__init__()
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._contended = meter.create_counter(
            f"{_NAME}.contended",
            unit="{acquire}",
            description="Acquires that found the lock held by somebody else.",
        )
        self._wait, self._hold = (
            meter.create_histogram(
                f"{_NAME}.{what}.duration",
                unit="s",
                description=text,
                explicit_bucket_boundaries_advisory=BUCKETS,
            )
            for what, text in (
                ("wait", "How long acquires waited; 0 if the lock was free."),
                ("hold", "How long locks were held."),
            )
        )

        self._breaker = meter.create_up_down_counter(
            f"{_NAME}.breaker.open",
            unit="{process}",
            description="1 while calls fail at once, as the server does not answer.",
        )

    def breaker_changed(self, server: str, is_open: bool) -> None:  # noqa: FBT001 - as `Telemetry`
        """Add 1 when the breaker opens, and take it away when it closes."""
        self._breaker.add(1 if is_open else -1, {f"{_NAME}.server": server})

    def contended(self, lock: str, mode: str) -> None:
        """Count an acquire that found the lock held by somebody else."""
        self._contended.add(1, {f"{_NAME}.lock": lock, f"{_NAME}.mode": mode})

    def wait_ended(self, event: LockEvent, labels: Labels) -> None:
        """Record the wait; a span if somebody else was in the way."""
        attributes = _attributes(labels)
        self._wait.record(event.waited, attributes)
        if labels.outcome != "acquired" or event.waited:
            failed = "" if labels.outcome in {"acquired", "not_available"} else labels.outcome
            now = time.time_ns()
            start = now - _ns(event.waited)
            self._span(f"lock wait {labels.lock}", event, attributes, (start, now), failed)

    def hold_ended(self, event: LockEvent, labels: Labels, context: Context | None) -> None:
        """Record the hold and its span."""
        attributes = _attributes(labels)
        self._hold.record(event.held, attributes)
        start = time.time_ns() - _ns(time.monotonic() - event.since)
        ends = start, start + _ns(event.held)
        self._span(f"lock hold {labels.lock}", event, attributes, ends, event.reason, context)

    def context(self) -> Context:
        """Return the span in which a hold begins."""
        return get_current()

    def _span(
        self,
        name: str,
        event: LockEvent,
        attributes: Mapping[str, AttributeValue],
        ends: tuple[int, int],
        failed: str,
        parent: Context | None = None,
    ) -> None:
        start, end = ends
        attributes = {**attributes, f"{_NAME}.name": event.name}
        if event.fencing_token:
            attributes[f"{_NAME}.fencing_token"] = event.fencing_token
        if event.holder:
            attributes[f"{_NAME}.holder"] = event.holder
        if event.circle:
            attributes[f"{_NAME}.circle"] = [str(wait) for wait in event.circle]
        span = self._tracer.start_span(name, parent, attributes=attributes, start_time=start)
        if failed:
            span.set_status(trace.StatusCode.ERROR, failed)
        span.end(end)


def _attributes(labels: Labels) -> dict[str, str]:
    return {f"{_NAME}.{label}": value for label, value in labels._asdict().items()}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
