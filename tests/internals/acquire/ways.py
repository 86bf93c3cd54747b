"""What comes of a case, for its caller, for those who listen, and on the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from redis_locks import Lock, LockError, scripts
from redis_locks.conf import settings as conf
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.events.dispatch import Teller
from redis_locks.locks import lock as locks
from redis_locks.protocol import acquire, renewal
from redis_locks.protocol.lock_events import CountedLease, LockEvent
from redis_locks.testing.server import EmbeddedServer
from tests.internals.acquire.stage import LEASE, Stage, recorded
from tests.support.world import PATIENCE

Case = Callable[[Stage], Any]


class Seen(NamedTuple):
    """What comes of a case, for its caller, for those who listen and on the server."""

    outcome: str
    notes: list[str]
    events: list[str]
    commands: int
    left: set[str]


class Listener:
    """Writes down all that is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def count(self, kind: str, names: tuple[str, ...], _: str, seconds: float) -> bool:
        self.events.append(f"{kind} {names} {seconds > 0}")
        return True

    def count_hold(self, kind: str, seconds: float, lease: CountedLease) -> bool:
        return self.count(kind, lease.plan.names, "", seconds)

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        told = (event.wait, event.waited > 0, event.held > 0, bool(event.holder), event.reason)
        self.events.append(f"{event.kind}: {told} {task}")


def see(case: Case, stage: Stage, listener: Listener) -> Seen:
    listener.events.clear()
    for script in scripts.ALL:
        stage.client.script_load(script.text)
    stage.ran.clear()
    notes: list[str] = []
    try:
        outcome = repr(case(stage))
    except (LockError, KeyError, KeyboardInterrupt, asyncio.CancelledError) as error:
        outcome = f"{type(error)} {error}"
        notes = getattr(error, "__notes__", [])
    left = stage.observed.left_of(stage.lock.name)
    return Seen(outcome, notes, sorted(listener.events), len(stage.ran), left)


@pytest.fixture(scope="session")
def own_server() -> Iterator[EmbeddedServer]:
    """A server whose commands are counted and whose connections are killed."""
    with EmbeddedServer(use_environment=False) as server:
        yield server


OneWay = Callable[..., Seen]


@pytest.fixture
def one_way(
    name: str,
    own_server: EmbeddedServer,
    redis_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> OneWay:
    """See what comes of a case."""
    driver = backend_for(own_server.url).driver
    assert isinstance(driver, BlockingDriver)
    listener = Listener()
    monkeypatch.setattr(Teller, "count", lambda _, *counted: listener.count(*counted))
    monkeypatch.setattr(Teller, "count_hold", lambda _, *counted: listener.count_hold(*counted))
    monkeypatch.setattr(Teller, "tell", lambda _, event, task: listener.tell(event, task=task))
    # Nobody asks again, or looks for a deadlock or a lost hold, because the machine is slow.
    patient = conf.get_settings()._replace(deadlock_timeout=PATIENCE)
    monkeypatch.setattr(locks, "get_settings", lambda: patient)
    monkeypatch.setattr(acquire, "RECHECK", PATIENCE)
    monkeypatch.setattr(renewal, "YOUNG", PATIENCE)

    def see_one(case: Case) -> Seen:
        with own_server.client() as client, recorded(driver) as ran:
            driver.drop_idle()
            for link in [run_blocking(driver.checkout()) for _ in range(2)]:
                driver.checkin(link)
            lock = Lock(name, using=own_server.url, lease=LEASE)
            return see(case, Stage(lock, client, driver, ran), listener)

    return see_one
