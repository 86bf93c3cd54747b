"""The shortest way of blocking code does what the longer ones do, at every turn it can leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import redis

from redis_locks import Lock, LockError, inspection, scripts
from redis_locks.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.telling import Teller
from redis_locks.testing.server import EmbeddedServer
from tests.contract.world import PATIENCE, Observer, Threads, keys_of, until

SCRIPTS = ("evalsha", "eval")


class Stage(NamedTuple):
    """One lock on a server of its own, whose connection is open already."""

    lock: Lock
    client: redis.Redis

    @property
    def observed(self) -> Observer:
        return Observer(self.client)

    def in_line(self) -> Any:
        """Start to wait in another thread; return when it stands in the queue."""
        future = Threads().start(self.lock.acquire, wait=PATIENCE)
        self.observed.until_waiters(self.lock.name, 1)
        return future

    def kill_connections(self) -> None:
        self.client.client_kill_filter(_type="pubsub", skipme=True)


def free(stage: Stage) -> None:
    with stage.lock:
        pass


def refused(stage: Stage) -> Any:
    with stage.lock:
        return Threads().start(stage.lock.acquire, wait=0).result(PATIENCE)


def out_of_time(stage: Stage) -> Any:
    with stage.lock:
        return Threads().start(stage.lock.acquire, wait=0.005).result(PATIENCE)


def handed_on(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
    waiting.result(PATIENCE).release()


def cancelled(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
        (waiter,) = inspection.waiters(using=stage.lock._using)
        assert inspection.cancel(waiter, using=stage.lock._using)
        waiting.result(PATIENCE)


def unknown_when_acquired(stage: Stage) -> None:
    stage.client.script_flush()
    with stage.lock:
        pass


def unknown_when_released(stage: Stage) -> None:
    with stage.lock:
        stage.client.script_flush()


def refused_by_the_server(stage: Stage) -> None:
    stage.client.set(keys_of(stage.lock.name).holder, "not ours")
    try:
        with stage.lock:
            pass
    finally:
        stage.client.delete(keys_of(stage.lock.name).holder)


def broken_when_acquired(stage: Stage) -> None:
    stage.kill_connections()
    with stage.lock:
        pass


def broken_when_released(stage: Stage) -> None:
    with stage.lock:
        stage.kill_connections()


def broken_in_line(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
        claims = stage.client.hvals(keys_of(stage.lock.name).claims)
        stage.kill_connections()
        # It stands there still, and is heard elsewhere.
        until(lambda: stage.client.hvals(keys_of(stage.lock.name).claims) != claims)
    waiting.result(PATIENCE).release()


def lost(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)


def lost_with_an_error(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        raise KeyError


def over(stage: Stage) -> None:
    with stage.lock as hold:
        hold._lease.deadline = 0.0


def nested(stage: Stage) -> None:
    with stage.lock, stage.lock:
        pass


def released_early(stage: Stage) -> None:
    with stage.lock as hold:
        hold.release()
        hold.release()


CASES = [
    free,
    refused,
    out_of_time,
    handed_on,
    cancelled,
    unknown_when_acquired,
    unknown_when_released,
    refused_by_the_server,
    broken_when_acquired,
    broken_when_released,
    broken_in_line,
    lost,
    lost_with_an_error,
    over,
    nested,
    released_early,
]

AGAIN = {
    unknown_when_acquired: 2,
    unknown_when_released: 1,
    refused_by_the_server: 1,
    lost: 1,
    lost_with_an_error: 1,
}
"""How often the shortest way leaves it to the longer ones to find the same again, which is rare."""


class Seen(NamedTuple):
    """What comes of a case, for its caller, for those who listen and on the server."""

    outcome: str
    notes: list[str]
    events: list[str]
    commands: int
    left: set[str]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as server:
        yield server


def see(case: Callable[[Stage], Any], stage: Stage, events: list[str]) -> Seen:
    events.clear()
    for script in scripts.ALL:
        stage.client.script_load(script.text)
    stage.client.config_resetstat()
    notes: list[str] = []
    try:
        outcome = repr(case(stage))
    except (LockError, KeyError) as error:
        outcome = f"{type(error)} {error}"
        notes = getattr(error, "__notes__", [])
    statistics = stage.client.info("commandstats")
    commands = sum(statistics.get(f"cmdstat_{each}", {}).get("calls", 0) for each in SCRIPTS)
    return Seen(outcome, notes, sorted(events), commands, stage.observed.left_of(stage.lock.name))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_both_ways_come_to_the_same_end(
    case: Callable[[Stage], Any],
    name: str,
    server: EmbeddedServer,
    redis_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    monkeypatch.setattr(Teller, "count", lambda _, kind, *__: bool(events.append(kind)))
    backend = backend_for(server.url)
    prompt = backend.prompt
    assert prompt is not None
    seen = []
    with server.client() as client:
        for way in (prompt, None):
            monkeypatch.setattr(backend, "prompt", way)
            prompt.drop_idle()
            for link in [run_blocking(prompt.checkout()) for _ in range(2)]:
                prompt.checkin(link)
            seen.append(see(case, Stage(Lock(name, using=server.url, lease=60), client), events))
    shortest, longer = seen
    if case is broken_in_line:  # which takes so long that the renewal may ask as well
        longer = longer._replace(commands=shortest.commands)
    assert shortest == longer._replace(commands=longer.commands + AGAIN.get(case, 0))
