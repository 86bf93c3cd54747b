"""What metrics and traces have in common: the figures of an event, and their labels.

A label must have few values, so it cannot be the lock's name: that would make one time series for
each account. The label is the name's template, or else the function that acquires the lock. After
`MAX_LOCKS` different labels, all further locks share `OTHER`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from django.utils.module_loading import import_string

from redis_locks.drivers import breaker
from redis_locks.protocol.lock_events import LockEvent
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.values.identity import user_function

MAX_LOCKS: Final = 500
"""How many different labels the locks of one process have."""

OTHER: Final = "(other)"
"""The label of all further locks, and of holds whose acquire sent no event."""

MAX_OPEN: Final = 10_000
"""How many open holds are remembered at most; a hold that is dropped never ends."""

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The upper bounds, in seconds, of the buckets of the histograms of waits and holds."""

CLASSES: Final = {
    "opentelemetry": "redis_locks.integrations.opentelemetry.OpenTelemetry",
    "prometheus": "redis_locks.integrations.prometheus.PrometheusMetrics",
}
"""What REDIS_LOCKS["TELEMETRY"] names."""

_started: set[str] = set()


def start(named: Iterable[str]) -> None:
    """Connect what REDIS_LOCKS["TELEMETRY"] names, and import nothing else.

    A second call does nothing.
    """
    for name in named:
        if name not in _started:
            import_string(CLASSES[name])().connect()
            _started.add(name)


class Labels(NamedTuple):
    """The labels of one figure.

    Attributes:
        lock: A template, the function that acquires, or `OTHER`.
        mode: "exclusive", "shared", "permit" or "upgrade".
        outcome: How a wait ended: "acquired", "not_available" (with `wait=0`), "timed_out",
            "deadlock", or "unavailable" if the server could not be asked. Or how a hold ended:
            "released" or "lost".
    """

    lock: str
    mode: str
    outcome: str


class Telemetry(ABC):
    """Receives the signals of locks; its subclasses know where figures go."""

    def __init__(self) -> None:
        self._locks: set[str] = set()
        self._open: OrderedDict[tuple[object, ...], tuple[str, Any]] = OrderedDict()

    def connect(self) -> None:
        """Receive the signals of all locks of this process, until `disconnect`."""
        for signal in LOCK_SIGNALS.values():
            signal.connect(self.receive, weak=False)
        if self.breaker_changed not in breaker.changed:
            breaker.changed.append(self.breaker_changed)

    def disconnect(self) -> None:
        """Stop receiving."""
        for signal in LOCK_SIGNALS.values():
            signal.disconnect(self.receive)
        with suppress(ValueError):
            breaker.changed.remove(self.breaker_changed)

    def receive(self, event: LockEvent, **_: object) -> None:
        """Turn one event into figures."""
        mode = event.mode.partition(":")[0]
        if event.kind in {"detached", "released", "lost"}:
            lock, context = self._open.pop(hold_key(event), (None, None))
            if event.kind != "detached":  # else it ends elsewhere
                labels = Labels(lock or self._label(event.template), mode, event.kind)
                self.hold_ended(event, labels, context)
            return
        lock = self._label(event.template or user_function())
        if event.kind == "contended":
            self.contended(lock, mode)
            if event.wait != 0:
                return
        elif event.kind in {"acquired", "adopted"}:
            self._note(event, lock)
            if event.kind == "adopted":  # and counted where it was acquired
                return
        outcome = "not_available" if event.kind == "contended" else event.kind
        self.wait_ended(event, Labels(lock, mode, outcome))

    @abstractmethod
    def contended(self, lock: str, mode: str) -> None:
        """Count an acquire that found the lock held by somebody else."""

    @abstractmethod
    def wait_ended(self, event: LockEvent, labels: Labels) -> None:
        """Note that an acquire ended, `event.waited` seconds after it began to wait."""

    @abstractmethod
    def hold_ended(self, event: LockEvent, labels: Labels, context: Any) -> None:
        """Note that a hold ended after `event.held` seconds.

        `context` is where it began, if known.
        """

    @abstractmethod
    def breaker_changed(self, server: str, is_open: bool) -> None:  # noqa: FBT001 - called by `breaker`
        """Note that the breaker of a server has opened, or closed, in this process."""

    def context(self) -> Any:
        """Return the context in which a hold begins, to be remembered."""
        return None

    def _note(self, event: LockEvent, lock: str) -> None:
        self._open[hold_key(event)] = (lock, self.context())
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    def _label(self, lock: str | None) -> str:
        if lock is None:
            return OTHER
        if lock not in self._locks:
            if len(self._locks) >= MAX_LOCKS:
                return OTHER
            self._locks.add(lock)
        return lock


def hold_key(event: LockEvent) -> tuple[object, ...]:
    """Return a key that the events of one hold share, and those of no other hold."""
    # With a coarse clock, several permits may begin at the same time.
    return event.server, event.names, event.since, event.who
