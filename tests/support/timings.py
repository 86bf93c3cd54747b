"""Times and numbers that are fixed in the product, and that tests shorten or stretch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from time import monotonic
from unittest.mock import patch

import pytest

from redis_locks.diagnosis import alerts
from redis_locks.drivers import listener_thread
from redis_locks.drivers.base import Driver
from redis_locks.locks.timeouts import bounded
from redis_locks.protocol import acquire, renewal, replication, retry, silent_questions
from redis_locks.protocol.acquire import LOOK_AGAIN
from redis_locks.protocol.lease import YOUNG, Lease
from redis_locks.protocol.renewal import Registry


def waiters_ask_again_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A waiter that hears nothing asks the server again after so many seconds."""
    monkeypatch.setattr(acquire, "RECHECK", seconds)


def holders_listen_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A holder listens for a force-release once its hold is so many seconds old."""
    monkeypatch.setattr(renewal, "YOUNG", seconds)


def connections_are_tested_after(seconds: float) -> AbstractContextManager[object]:
    """Within the block, test a connection for force-releases after so many seconds of silence."""
    return patch.object(listener_thread, "SILENCE", seconds)


def replies_may_be_late(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the server answer so many seconds after a `lock_timeout` or `lock_deadline` is over."""
    monkeypatch.setattr(retry, "OVERTIME", seconds)


def renewal_ends_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The renewer goes away once it had nothing to renew for so many seconds."""
    monkeypatch.setattr(Registry, "IDLE", seconds)


def replicas_may_take(seconds: float) -> AbstractContextManager[object]:
    """Within the block, a grant waits for replicas for at most so many seconds."""
    return patch.object(replication, "LONGEST", seconds)


def replicas_may_outlast_the_lease(seconds: float) -> AbstractContextManager[object]:
    """Within the block, a grant waits so long for replicas, however short its lease is."""
    return patch.object(replication, "patience", lambda *_: seconds)


def replicas_answer_after_the_lease() -> AbstractContextManager[object]:
    """Within the block, replicas know of a hold only after its lease, which the server extends."""
    really = replication.extend

    async def extend(driver: Driver, held: Lease, milliseconds: int) -> bool:
        until = held.deadline + 0.05
        await really(driver, held, 60_000)
        while monotonic() < until:
            await driver.sleep(0.01)
        return False

    return patch.object(replication, "extend", extend)


def waits_are_brief_below(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A waiter asks silently if the wait before took no longer than so many seconds."""
    monkeypatch.setattr(silent_questions, "BRIEF", seconds)


def alerts_are_told_again_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """An alert that still fires is told again after so many seconds."""
    monkeypatch.setattr(alerts, "TOLD_AGAIN", seconds)
