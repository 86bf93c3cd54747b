"""Metrics for Prometheus: REDIS_LOCKS = {"TELEMETRY": ["prometheus"]}; needs prometheus-client.

| metric | labels | what |
|---|---|---|
| ``redis_locks_contended_total`` | lock, mode | acquires that found the lock held by somebody else |
| ``redis_locks_wait_seconds`` | lock, mode, outcome | histogram of waits; all acquires are counted, most waited 0 s |
| ``redis_locks_hold_seconds`` | lock, mode, outcome | histogram of holds |

See `telemetry.Labels` for the labels. The figures are those of this process. The application exposes
them along with its other metrics.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from redis_locks.integrations.telemetry import BUCKETS, Labels, Telemetry
from redis_locks.protocol.lock_events import LockEvent


class PrometheusMetrics(Telemetry):
    """Counts in `registry`, from `connect` on. The setting makes one for the default registry.

    Raises:
        ValueError: The registry has these metrics already.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        super().__init__()
        self._contended = Counter(
            "redis_locks_contended",
            "Acquires that found the lock held by somebody else.",
            ("lock", "mode"),
            registry=registry,
        )
        self._wait, self._hold = (
            Histogram(
                f"redis_locks_{what}_seconds",
                text,
                Labels._fields,
                buckets=BUCKETS,
                registry=registry,
            )
            for what, text in (
                ("wait", "Seconds that acquires waited; 0 if the lock was free."),
                ("hold", "Seconds that locks were held."),
            )
        )

    def contended(self, lock: str, mode: str) -> None:
        """Count an acquire that found the lock held by somebody else."""
        self._contended.labels(lock, mode).inc()

    def wait_ended(self, event: LockEvent, labels: Labels) -> None:
        """Observe the wait."""
        self._wait.labels(*labels).observe(event.waited)

    def hold_ended(self, event: LockEvent, labels: Labels, context: Any) -> None:  # noqa: ARG002 - for traces
        """Observe the hold."""
        self._hold.labels(*labels).observe(event.held)
