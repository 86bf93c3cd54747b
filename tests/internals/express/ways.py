"""What comes of a case in the shortest way, and in the longer ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from redis_locks import Lock, LockError, acquiring, attempts, conf, scripts
from redis_locks.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.observing import LockEvent
from redis_locks.renewal import threads
from redis_locks.telling import Teller
from redis_locks.testing.server import EmbeddedServer
from tests.internals.express.stage import LEASE, Stage, recorded
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


OneWay = Callable[..., Seen]
BothWays = Callable[[Case, int | None], tuple[Seen, Seen]]


@pytest.fixture
def one_way(
    name: str,
    own_server: EmbeddedServer,
    redis_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> OneWay:
    """See a case in the shortest way, or (`prompt` False) in the longer ones."""
    backend = backend_for(own_server.url)
    driver = backend.prompt
    assert isinstance(driver, BlockingDriver)
    listener = Listener()
    monkeypatch.setattr(Teller, "count", lambda _, *counted: listener.count(*counted))
    monkeypatch.setattr(Teller, "tell", lambda _, event, task: listener.tell(event, task=task))
    # Nobody asks again, or looks for a deadlock or a lost hold, because the machine is slow.
    patient = conf.get_settings()._replace(deadlock_timeout=PATIENCE)
    monkeypatch.setattr(acquiring, "get_settings", lambda: patient)
    monkeypatch.setattr(attempts, "RECHECK", PATIENCE)
    monkeypatch.setattr(threads, "YOUNG", PATIENCE)

    def see_one(case: Case, *, prompt: bool) -> Seen:
        with own_server.client() as client, recorded(driver) as ran:
            monkeypatch.setattr(backend, "prompt", driver if prompt else None)
            driver.drop_idle()
            for link in [run_blocking(driver.checkout()) for _ in range(2)]:
                driver.checkin(link)
            lock = Lock(name, using=own_server.url, lease=LEASE)
            return see(case, Stage(lock, client, driver, ran), listener)

    return see_one


@pytest.fixture
def both_ways(one_way: OneWay) -> BothWays:
    """See a case in the shortest way, and in the longer ones, which lack so many commands.

    None: how many they take is a matter of time.
    """

    def see_both(case: Case, again: int | None) -> tuple[Seen, Seen]:
        shortest, longer = one_way(case, prompt=True), one_way(case, prompt=False)
        expected = shortest.commands if again is None else longer.commands + again
        return shortest, longer._replace(commands=expected)

    return see_both


def cases(found: Mapping[Case, int | None]) -> pytest.MarkDecorator:
    """Run a test with each case, and how many more commands the shortest way takes."""
    return pytest.mark.parametrize(
        ("case", "again"), found.items(), ids=[case.__name__ for case in found]
    )
