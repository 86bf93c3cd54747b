"""Metrics for Prometheus: REDIS_LOCKS = {"TELEMETRY": ["prometheus"]}; needs prometheus-client.

| metric | labels | what |
|---|---|---|
| ``redis_locks_contended_total`` | lock, mode | acquires that found the lock held |
| ``redis_locks_wait_seconds`` | lock, mode, outcome | histogram of the waits of all acquires |
| ``redis_locks_hold_seconds`` | lock, mode, outcome | histogram of holds |
| ``redis_locks_breaker_open`` | server | 1 while calls fail at once, else 0 |

In multiprocess mode, ``redis_locks_breaker_open`` is the number of processes. See
`telemetry.Labels` for the labels. The figures are those of this process. The application
exposes them along with its other metrics.

`ServerMetrics` shows what all processes together hold and wait for. Register it in one process:
each scrape reads summaries of up to 10,000 locks, those with long waits first. With more locks,
the number of waiters and the longest hold may be higher than it says.

| metric | what |
|---|---|
| ``redis_locks_up`` | 1, or 0 if the server cannot be asked |
| ``redis_locks_held`` | locks that somebody holds |
| ``redis_locks_waiting`` | waiters, of all locks |
| ``redis_locks_oldest_wait_seconds`` | the longest wait that goes on now; 0 if nobody waits |
| ``redis_locks_longest_hold_seconds`` | the longest hold that goes on now; 0 if nobody holds |
| ``redis_locks_memory_warning`` | 1 if the server may evict locks or is short of memory, else 0 |

``redis_locks_memory_warning`` has no value if the user may not run ``INFO``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from redis_locks.diagnosis.server_checks import vitals
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.survey import survey
from redis_locks.integrations.telemetry import BUCKETS, Labels, Telemetry
from redis_locks.protocol.lock_events import LockEvent

__all__ = ["ServerMetrics"]


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

        self._breaker = Gauge(
            "redis_locks_breaker_open",
            "1 while calls fail at once, as the server does not answer.",
            ("server",),
            registry=registry,
            multiprocess_mode="livesum",
        )

    def breaker_changed(self, server: str, is_open: bool) -> None:  # noqa: FBT001 - as `Telemetry`
        """Set the gauge of the server."""
        self._breaker.labels(server).set(int(is_open))

    def contended(self, lock: str, mode: str) -> None:
        """Count an acquire that found the lock held by somebody else."""
        self._contended.labels(lock, mode).inc()

    def wait_ended(self, event: LockEvent, labels: Labels) -> None:
        """Observe the wait."""
        self._wait.labels(*labels).observe(event.waited)

    def hold_ended(self, event: LockEvent, labels: Labels, context: Any) -> None:  # noqa: ARG002 - for traces
        """Observe the hold."""
        self._hold.labels(*labels).observe(event.held)


class ServerMetrics(Collector):
    """Gauges of all locks of a server; ``REGISTRY.register(ServerMetrics())`` exposes them.

    Args:
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.
    """

    def __init__(self, using: str | None = None) -> None:
        self._using = using

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name the metrics without asking the server.

        The server may be gone while this is registered.
        """
        return self._gauges()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask the server.

        Blocks for a round trip per 25 locks, of which it looks at 10,000 at most, and a few more.
        """
        try:
            seen, server = survey(using=self._using), vitals(using=self._using)
        except LockBackendError:
            return self._gauges(0)
        oldest = seen.oldest
        return self._gauges(
            1,
            seen.held,
            seen.waiting,
            oldest.oldest_wait if oldest else 0.0,
            max((lock.held_for for lock in seen.locks), default=0.0),
            *([bool(server.warning)] if server else []),
        )

    def _gauges(self, *values: float) -> Iterator[GaugeMetricFamily]:
        """Return the gauges that have a value; all of them, without one, if none is given."""
        for place, (name, text) in enumerate(_GAUGES):
            if place < len(values) or not values:
                yield GaugeMetricFamily(name, text, value=values[place] if values else None)


_GAUGES = (
    ("redis_locks_up", "1, or 0 if the server cannot be asked."),
    ("redis_locks_held", "Locks that somebody holds."),
    ("redis_locks_waiting", "Waiters, of all locks."),
    ("redis_locks_oldest_wait_seconds", "The longest wait that goes on now."),
    ("redis_locks_longest_hold_seconds", "The longest hold that goes on now."),
    ("redis_locks_memory_warning", "1 if the server may evict locks or has little memory left."),
)
