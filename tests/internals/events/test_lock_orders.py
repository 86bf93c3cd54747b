"""Orders of locks that a process has seen: how many it keeps, and when it keeps any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.events import lock_order
from redis_locks.protocol import lock_events
from tests.django.test_orders import nested


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"WARN_ORDER": True}):
        yield


def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_order, "MOST_ORDERS", 10)
    monkeypatch.setattr(lock_order, "MOST_PAIRS", 4)
    kept = lock_order.Orders()
    monkeypatch.setattr(lock_events, "watch", kept.note)
    nested(Lock(f"{name}:0"), Lock(*(f"{name}:set:{i}" for i in range(20))))
    assert 4 == len(kept._seen)
    for i in range(1, 15):
        nested(Lock(f"{name}:0"), Lock(f"{name}:{i}"))
        nested(Lock(f"{name}:{i}"), Lock(f"{name}:0"))
    assert (10, 10) == (len(kept._seen), len(kept._warned))
    assert 0 == len(kept._places)


@pytest.mark.parametrize(
    ("configured", "debug", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"WARN_ORDER": False}, True, False),
        ({"WARN_ORDER": True}, False, True),
        ({"LEASE": 0}, True, False),
    ],
)
def test_it_is_on_in_debug_unless_the_setting_says_otherwise(
    configured: dict[str, object], *, debug: bool, expected: bool
) -> None:
    with override_settings(DEBUG=debug, REDIS_LOCKS=configured):
        assert expected is (lock_events.watch is not None)


def test_a_fork_starts_with_a_mutex_of_its_own() -> None:
    watch = lock_events.watch
    lock_order._after_fork()
    assert watch is not None
    assert lock_events.watch not in (None, watch)
