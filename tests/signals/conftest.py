from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redis_locks import DeadlockDetected, Lock
from redis_locks.signals import LOCK_SIGNALS, LockEvent
from tests.support.fixtures import listening, server_side, tasks, world
from tests.support.world import PATIENCE

IMPATIENT: dict[str, object] = {"DEADLOCK_TIMEOUT": 0.1, "PREFIX": "impatient"}
"""Settings with which a wait is a long one soon; what it notes is in nobody's way."""

Connect = Callable[..., None]


class Heard(list[LockEvent]):
    """The events of one test's locks, in the order in which they came."""

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self]

    def only(self, kind: str) -> LockEvent:
        (event,) = [event for event in self if event.kind == kind]
        return event


def deadlocked(name: str) -> DeadlockDetected:
    """Have two threads wait for each other; how the wait of one of them was ended."""
    both_hold = threading.Barrier(2)

    def party(first: str, second: str) -> DeadlockDetected | None:
        with Lock(f"{name}:{first}", wait=PATIENCE):
            both_hold.wait(PATIENCE)
            try:
                with Lock(f"{name}:{second}", wait=PATIENCE):
                    return None
            except DeadlockDetected as error:
                return error

    with ThreadPoolExecutor(2) as pool:
        (victim,) = filter(None, pool.map(party, "ab", "ba"))
        return victim


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect a receiver to one of the signals until the test ends."""
    connected: list[tuple[Any, Any]] = []

    def connect(kind: str, receiver: Any) -> None:
        signal = LOCK_SIGNALS[kind]  # type: ignore[index]
        signal.connect(receiver, weak=False)
        connected.append((signal, receiver))

    yield connect
    for signal, receiver in connected:
        assert signal.disconnect(receiver)


@pytest.fixture
def heard(connect: Connect, name: str) -> Heard:
    """What is told of the locks whose names begin with `name`, from now on."""
    events = Heard()

    def receive(event: LockEvent, **_: object) -> None:
        if event.name.startswith(name):
            events.append(event)

    for kind in LOCK_SIGNALS:
        connect(kind, receive)
    return events
