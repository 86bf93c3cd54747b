"""Whatever the server does, each call ends in the time that docs/howto/deadlines.md says.

A server is stopped, or a proxy swallows all that is said, or it loses one reply. Each is measured
with connections that are open before, and with new ones: then something takes the connection and
says nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import pytest
from django.test import override_settings

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockTimeout,
    lock_deadline,
    lock_timeout,
    run_once,
)
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread, is_free
from tests.faults.proxy import Proxy
from tests.support.breakers import breaker_at
from tests.support.connections import drop_idle
from tests.support.world import PATIENCE, Tasks, Threads, World, held, until

pytestmark = pytest.mark.ci

REPLY = 1.5
"""REPLY_TIMEOUT in these tests."""
RELEASE = 2.0
"""RELEASE_TIMEOUT in these tests."""
OVERTIME = 0.25
SLACK = 1.4
"""Seconds for a busy machine. With them, no call may take as long as for two replies."""


class Fault(NamedTuple):
    """A server, where it is asked, and what makes it silent."""

    server: EmbeddedServer
    url: str
    begin: Callable[[], object]
    end: Callable[[], object]


@contextmanager
def stopped(server: EmbeddedServer) -> Iterator[Fault]:
    def go_on() -> None:
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: not breaker_at(server.url).is_open)

    try:
        yield Fault(server, server.url, lambda: os.kill(server.pid, signal.SIGSTOP), go_on)
    finally:
        go_on()


@contextmanager
def parted(server: EmbeddedServer) -> Iterator[Fault]:
    with Proxy(server.url) as proxy:
        yield Fault(server, proxy.url, proxy.part, proxy.heal)


@contextmanager
def dripping(server: EmbeddedServer) -> Iterator[Fault]:
    """A server whose every byte comes by itself, each long before the time for a reply is over."""
    with Proxy(server.url) as proxy:

        def drip(seconds: float) -> None:
            proxy.drip = seconds

        yield Fault(server, proxy.url, lambda: drip(REPLY / 3), lambda: drip(0))


@pytest.fixture(params=[stopped, parted, dripping], ids=["stopped", "swallowed", "byte by byte"])
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """A server that falls silent."""
    timeouts = {"REPLY_TIMEOUT": REPLY, "RELEASE_TIMEOUT": RELEASE, "STATISTICS": False}
    with (
        EmbeddedServer(use_environment=False) as server,
        override_settings(REDIS_LOCKS=timeouts),
        request.param(server) as found,
    ):
        yield found


class Took(NamedTuple):
    """What a call has come to, and in how many seconds."""

    outcome: Any
    seconds: float


def timed(call: Callable[[], Any]) -> Took:
    began = monotonic()
    outcome: Any
    try:
        outcome = call()
    except Exception as error:  # noqa: BLE001 - judged by the caller
        outcome = error
    return Took(outcome, monotonic() - began)


def all_at_once(calls: dict[str, Callable[[], Any]]) -> dict[str, Took]:
    """Call each in a thread of its own."""
    begun: dict[str, Future[Took]] = {
        what: Threads().start(timed, call) for what, call in calls.items()
    }
    return {what: future.result(PATIENCE) for what, future in begun.items()}


def late(took: dict[str, Took], bounds: dict[str, float]) -> dict[str, float]:
    """Those that took longer than they may."""
    found = {what: each.seconds for what, each in took.items()}
    return {what: each for what, each in found.items() if each > bounds[what] + SLACK}


def unlike(took: dict[str, Took], kind: type[Exception]) -> dict[str, Any]:
    """Those that ended in another way."""
    return {what: each.outcome for what, each in took.items() if not isinstance(each.outcome, kind)}


class Acquiring:
    """Acquires of a thread, or of a task, within blocks that bound them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, lock: Lock, *blocks: Any, **options: Any) -> Hold | None:
        if isinstance(self._world, Tasks):
            return self._world.run(self._in_task(lock, blocks, options))
        with ExitStack() as stack:
            for block in blocks:
                stack.enter_context(block)
            return lock.acquire(**options)

    @staticmethod
    async def _in_task(lock: Lock, blocks: Any, options: Any) -> Hold | None:
        with ExitStack() as stack:
            for block in blocks:
                stack.enter_context(block)
            return await lock.aacquire(**options)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_an_acquire_ends_within_its_wait_and_the_time_for_one_reply(
    fault: Fault, world: World, name: str, *, is_warm: bool
) -> None:
    acquire = Acquiring(world)
    if is_warm:
        world.release(held(world, Lock(name, using=fault.url)))
    fault.begin()

    def lock(part: str, **options: Any) -> Lock:
        return Lock(f"{name}:{part}", using=fault.url, **options)

    took = all_at_once(
        {
            "wait=0": lambda: acquire(lock("0"), wait=0),
            "wait=.5": lambda: acquire(lock("5"), wait=0.5),
            "read=": lambda: acquire(lock("r", read=[("GET", "x")]), wait=0),
            "shared": lambda: acquire(lock("s", mode="shared"), wait=0),
            "set": lambda: acquire(Lock(name, f"{name}:2", using=fault.url), wait=0),
            "crash_release": lambda: acquire(lock("c", crash_release=True), wait=0),
        }
    )
    bounds = dict.fromkeys(took, REPLY) | {"wait=.5": 0.5 + REPLY}
    assert {} == unlike(took, LockBackendError)
    assert {} == late(took, bounds)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_the_bounds_of_blocks_are_hard(
    fault: Fault, world: World, name: str, *, is_warm: bool
) -> None:
    acquire = Acquiring(world)
    with override_settings(REDIS_LOCKS={"REPLY_TIMEOUT": 20, "STATISTICS": False}):
        if is_warm:
            world.release(held(world, Lock(name, using=fault.url)))
        fault.begin()

        def lock(part: str, **options: Any) -> Lock:
            return Lock(f"{name}:{part}", using=fault.url, wait=30, **options)

        took = all_at_once(
            {
                "lock_timeout": lambda: acquire(lock("t"), lock_timeout(0.2)),
                "lock_timeout(0)": lambda: acquire(lock("t0"), lock_timeout(0)),
                "lock_deadline": lambda: acquire(lock("d"), lock_deadline(0.2)),
                "lock_deadline(0)": lambda: acquire(lock("d0"), lock_deadline(0)),
                "both": lambda: acquire(lock("b"), lock_deadline(9), lock_timeout(0.2)),
                "read=": lambda: acquire(lock("r", read=[("GET", "x")]), lock_timeout(0.2)),
                "crash_release": lambda: acquire(lock("c", crash_release=True), lock_timeout(0.2)),
            }
        )
    assert {} == unlike(took, LockBackendError)
    assert {} == late(took, dict.fromkeys(took, 0.2 + OVERTIME))


def test_after_a_deadline_a_silent_server_is_asked_once(
    fault: Fault, world: World, name: str
) -> None:
    world.release(held(world, Lock(name, using=fault.url)))
    fault.begin()
    with lock_deadline(0.2):
        took = [timed(lambda: Lock(name, using=fault.url).acquire(wait=30)) for _ in range(10)]
    assert {} == unlike(dict(zip(map(str, range(10)), took, strict=True)), LockBackendError)
    assert sum(each.seconds for each in took) < 0.2 + OVERTIME + SLACK


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_each_verb_of_a_hold_ends_in_the_time_for_one_reply(
    fault: Fault, world: World, name: str, *, is_warm: bool
) -> None:
    def hold(part: str, **options: Any) -> Hold:
        lock = Lock(f"{name}:{part}", using=fault.url, lease=60, **options)
        return held(world, lock)

    extended, shared, detached = hold("extend"), hold("downgrade"), hold("detach")
    upgraded = hold("upgrade", mode="shared")
    text = world.do(hold("adopt"), "detach")
    released, ended = hold("release"), hold("block")
    if not is_warm:
        drop_idle(fault.url)
    fault.begin()
    error = ValueError("the block's own")

    def adopt() -> Any:
        if isinstance(world, Tasks):
            return world.run(Hold.aadopt(text, using=fault.url))
        return Hold.adopt(text, using=fault.url)

    def end_block() -> None:
        def end(_: Any) -> None:
            raise error

        world.block(ended, end)

    took = all_at_once(
        {
            "extend": lambda: world.do(extended, "extend", 30),
            "downgrade": lambda: world.do(shared, "downgrade"),
            "detach": lambda: world.do(detached, "detach"),
            "adopt": adopt,
            "upgrade": lambda: world.do(upgraded, "upgrade", wait=0.3),
            "release": lambda: world.release(released),
        }
    )
    block = timed(end_block)
    fault.end()
    for each in (extended, shared, detached, upgraded):
        each.drop()
    bounds = dict.fromkeys(took, REPLY) | {"upgrade": 0.3 + REPLY, "release": RELEASE}
    assert {} == unlike(took, LockBackendError)
    assert {} == late(took, bounds)
    assert took["release"].outcome.may_be_done
    assert block.outcome is error
    assert block.seconds < RELEASE + SLACK
    # What nobody waits for any more goes on.
    until(lambda: is_free(released.name, using=fault.server.url))
    until(lambda: is_free(ended.name, using=fault.server.url))


def test_a_commit_is_not_cut_short_while_its_lease_lasts(
    fault: Fault, world: World, name: str
) -> None:
    counter = f"{name}:count"
    committed = held(world, Lock(name, using=fault.url, lease=60))
    fault.begin()
    committing = Threads().start(world.do, committed, "commit", [("INCR", counter)])
    sleep(2 * max(REPLY, RELEASE))
    assert not committing.done()
    fault.end()
    committing.result(PATIENCE)
    with fault.server.client() as client:
        assert client.get(counter) == b"1"


def test_a_commit_ends_with_its_lease(fault: Fault, world: World, name: str) -> None:
    committed = held(world, Lock(name, using=fault.url, lease=2, renew=False))
    fault.begin()
    took = timed(lambda: world.do(committed, "commit", [("INCR", "x")]))
    assert isinstance(took.outcome, LockBackendError)
    assert took.outcome.may_be_done
    assert took.seconds < 2 + REPLY + SLACK


def test_done_is_not_cut_short_while_its_lease_lasts(fault: Fault, name: str) -> None:
    job = run_once(name, using=fault.url, lease=60)

    def work() -> None:
        with job:
            fault.begin()
            threading.Timer(2 * max(REPLY, RELEASE), fault.end).start()

    took = timed(work)
    assert took.outcome is None
    assert took.seconds > max(REPLY, RELEASE)


def test_a_wait_without_an_end_outlasts_the_silence_and_says_so_once(
    fault: Fault, world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault.begin()
    waiting = world.start(world.acquire, Lock(name, using=fault.url), wait=None)
    sleep(3.5 * REPLY)
    assert not waiting.done()
    fault.end()
    hold = waiting.result(PATIENCE)
    assert hold is not None
    world.release(hold)
    lines = [each for each in caplog.messages if "waited for without an end" in each]
    assert len(lines) == 1
    assert fault.url in lines[0] or "server says nothing" in lines[0]


def test_only_a_server_that_has_said_who_holds_it_makes_it_a_timeout(
    fault: Fault, world: World, name: str
) -> None:
    lock = Lock(name, using=fault.url)
    hold = held(world, lock)
    assert world.acquire(lock, wait=0.1) is None
    with pytest.raises(LockTimeout):
        in_thread(lambda: lock.hold(wait=0.1).__enter__())
    fault.begin()
    took = timed(lambda: in_thread(lambda: lock.acquire(wait=0.1)))
    assert isinstance(took.outcome, LockBackendError)
    fault.end()
    world.release(hold)


def test_what_an_acquire_has_to_take_back_is_taken_back_in_the_background(
    fault: Fault, world: World, name: str
) -> None:
    """The server reads the question when it goes on, and grants the lock to nobody."""
    lock = Lock(name, using=fault.url, lease=60)
    world.release(held(world, lock))
    fault.begin()
    took = timed(lambda: world.acquire(lock, wait=0))
    assert isinstance(took.outcome, LockBackendError)
    fault.end()
    until(lambda: is_free(name, using=fault.server.url))


def test_a_hold_that_was_to_be_upgraded_does_not_outlast_its_release(
    fault: Fault, world: World, name: str
) -> None:
    """The server reads both later: it grants the upgrade, which hides the hold from its release."""
    hold = held(world, Lock(name, mode="shared", using=fault.url, lease=60))
    fault.begin()
    for took in (
        timed(lambda: world.do(hold, "upgrade", wait=0)),
        timed(lambda: world.release(hold)),
    ):
        assert isinstance(took.outcome, LockBackendError)
    fault.end()
    until(lambda: is_free(name, using=fault.server.url))


def test_a_lost_reply_costs_no_time(world: World, name: str) -> None:
    with (
        EmbeddedServer(use_environment=False) as server,
        override_settings(REDIS_LOCKS={"REPLY_TIMEOUT": PATIENCE, "STATISTICS": False}),
        Proxy(server.url) as proxy,
    ):
        lock = Lock(name, using=proxy.url, lease=60)
        world.release(held(world, lock))
        for number in range(1, 3):
            proxy.lose(number)
            took = timed(lambda: world.release(held(world, lock)))
            assert took.outcome is None
            assert took.seconds < PATIENCE


def test_a_task_waits_for_one_reply_only_whatever_came_before(
    fault: Fault, tasks: Tasks, name: str
) -> None:
    timeout = 2 * SLACK
    joined = "&" if "?" in fault.url else "?"
    lock = Lock(name, using=f"{fault.url}{joined}socket_timeout={timeout}")
    tasks.release(held(tasks, lock))
    sleep(1.1 * timeout)  # nothing is overdue any more that was asked before
    fault.begin()
    took = timed(lambda: tasks.acquire(lock, wait=0))
    assert isinstance(took.outcome, LockBackendError)
    assert took.seconds < timeout + SLACK


def test_a_cancelled_task_is_not_kept_by_a_silent_server(
    fault: Fault, tasks: Tasks, name: str
) -> None:
    lock = Lock(name, using=fault.url)

    async def give_up() -> None:
        await asyncio.wait_for(lock.aacquire(wait=60), 0.2)

    tasks.release(held(tasks, lock))
    fault.begin()
    took = timed(lambda: tasks.run(give_up()))
    assert isinstance(took.outcome, TimeoutError)
    assert took.seconds < 0.2 + REPLY + SLACK


def test_something_that_accepts_and_says_nothing_costs_the_time_for_one_reply(
    world: World, name: str
) -> None:
    path = f"/tmp/rl-{name[-12:]}.sock"  # noqa: S108 - a short path, as sockets need
    with (
        socket.socket(socket.AF_UNIX) as listener,
        override_settings(REDIS_LOCKS={"REPLY_TIMEOUT": REPLY, "STATISTICS": False}),
    ):
        listener.bind(path)
        try:
            listener.listen(50)
            lock = Lock(name, using=f"unix://{path}")
            for _ in range(2):
                took = timed(lambda: world.acquire(lock, wait=0))
                assert isinstance(took.outcome, LockBackendError)
                assert path in str(took.outcome)
                assert "REPLY_TIMEOUT" in str(took.outcome)
                assert took.seconds < REPLY + SLACK
        finally:
            Path(path).unlink()


@pytest.fixture
def mute() -> Iterator[str]:
    """The addresses of three servers that take connections and say nothing."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        stack.enter_context(
            override_settings(REDIS_LOCKS={"REPLY_TIMEOUT": REPLY, "STATISTICS": False})
        )
        yield ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in listeners)


@pytest.mark.parametrize("form", ["redis+sentinel://{}/bank", "redis+cluster://{}"])
def test_sentinels_and_nodes_that_say_nothing_share_the_time_for_one_reply(
    world: World, name: str, mute: str, form: str
) -> None:
    acquire = Acquiring(world)
    url = form.format(mute)
    took = all_at_once({"wait=0": lambda: acquire(Lock(f"{name}:2", using=url), wait=0)})
    with override_settings(REDIS_LOCKS={"REPLY_TIMEOUT": 20, "STATISTICS": False}):
        took |= all_at_once(
            {"lock_timeout": lambda: acquire(Lock(name, using=url), lock_timeout(REPLY - OVERTIME))}
        )
    assert {} == unlike(took, LockBackendError)
    assert {} == late(took, dict.fromkeys(took, REPLY))
