"""Print what listening to locks costs a cycle of acquire and release: `python -m tests.benchmarks.listeners`."""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import process_time
from typing import Any

import django
from django.conf import settings

from redis_locks.testing.server import EmbeddedServer

Listening = Callable[[], AbstractContextManager[None]]


@contextmanager
def no_observer() -> Iterator[None]:
    """As where the app is not installed: the core's hook is None."""
    from redis_locks.protocol import lock_events

    observer, lock_events.observer = lock_events.observer, lock_events.Nobody()
    try:
        yield
    finally:
        lock_events.observer = observer


@contextmanager
def nobody() -> Iterator[None]:
    """The app's default: an observer, but no receiver, and a log that takes warnings."""
    yield


@contextmanager
def receivers() -> Iterator[None]:
    """One receiver of every signal, which does nothing."""
    from redis_locks.signals import LOCK_SIGNALS

    def receive(**_: Any) -> None: ...

    for signal in LOCK_SIGNALS.values():
        signal.connect(receive)
    yield
    for signal in LOCK_SIGNALS.values():
        signal.disconnect(receive)


@contextmanager
def debug_log() -> Iterator[None]:
    """The log takes everything, and its handler drops it."""
    logger = logging.getLogger("redis_locks")
    handler = logging.NullHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.WARNING)
    logger.removeHandler(handler)


@contextmanager
def prometheus() -> Iterator[None]:
    """Metrics for Prometheus."""
    from prometheus_client import CollectorRegistry

    from redis_locks.integrations.prometheus import PrometheusMetrics

    metrics = PrometheusMetrics(CollectorRegistry())
    metrics.connect()
    yield
    metrics.disconnect()


@contextmanager
def opentelemetry() -> Iterator[None]:
    """Metrics and spans of OpenTelemetry's SDK, which nobody exports."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from redis_locks.integrations.opentelemetry import OpenTelemetry

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    telemetry = OpenTelemetry(tracers, meters)
    telemetry.connect()
    yield
    telemetry.disconnect()
    tracers.shutdown()
    meters.shutdown()


BASE = "no observer"

CASES: Mapping[str, Listening] = {
    BASE: no_observer,
    "nobody listens": nobody,
    "an empty receiver of each signal": receivers,
    "the log at DEBUG": debug_log,
    "Prometheus": prometheus,
    "OpenTelemetry, metrics and spans": opentelemetry,
}


def cycle(count: int) -> float:
    """Return the microseconds of CPU that one acquire and release of a free lock take here, blocking."""
    from redis_locks import Lock

    lock = Lock("listeners")
    gc.collect()
    started = process_time()
    for _ in range(count):
        with lock:
            pass
    return (process_time() - started) / count * 1e6


def main() -> None:
    """Run all cases in turn, and print the median of the differences within one round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=30, help="how often all are run in turn")
    parser.add_argument("--cycles", type=int, default=500, help="cycles of one run")
    options = parser.parse_args()
    with EmbeddedServer() as server:
        settings.configure(
            INSTALLED_APPS=["redis_locks"], REDIS_LOCKS={"CONNECTION": server.url}, USE_TZ=True
        )
        django.setup()
        logging.getLogger("redis_locks").setLevel(logging.WARNING)
        cycle(options.cycles)
        rounds = [
            {name: _timed(listening, options.cycles) for name, listening in CASES.items()}
            for _ in range(options.repeat)
        ]
    write = sys.stdout.write
    write(f"\nOne process, blocking, a free lock, median of {options.repeat} rounds\n\n")
    write("| who listens | CPU, us a cycle | more than without observer |\n|---|---|---|\n")
    for name in CASES:
        took = statistics.median(times[name] for times in rounds)
        more = statistics.median(times[name] - times[BASE] for times in rounds)
        write(f"| {name} | {took:.1f} | {more:+.1f} |\n")


def _timed(listening: Listening, cycles: int) -> float:
    with listening():
        return cycle(cycles)


if __name__ == "__main__":
    main()
