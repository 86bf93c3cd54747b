"""What is done in the background of a process, until the server answers."""

from __future__ import annotations

import os
import select
import signal
from time import monotonic
from typing import Any

import pytest

from redis_locks import Lock, inspection
from redis_locks.drivers.base import Driver, Link, run_blocking
from redis_locks.protocol.background import Background
from redis_locks.protocol.lease import Lease
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls
from tests.support.connections import backend_for
from tests.support.waiting import PATIENCE


def test_a_child_does_in_a_thread_of_its_own_what_it_has_to(redis_server: EmbeddedServer) -> None:
    background = backend_for(redis_server.url).driver.background
    told, tell = os.pipe()

    async def say_so(link: Link) -> None:
        os.write(tell, b"%d" % os.getpid())

    def said() -> bytes:
        return os.read(told, 10) if select.select([told], [], [], PATIENCE)[0] else b""

    background.add(say_so, monotonic() + PATIENCE)
    assert b"%d" % os.getpid() == said()
    child = os.fork()
    if not child:
        background.add(say_so, monotonic() + PATIENCE)
        select.select([], [], [], PATIENCE)  # the parent ends it
        os._exit(0)
    try:
        assert b"%d" % child == said()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)


def test_a_release_that_comes_after_the_background_s_has_not_lost_the_lock(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def release_after_the_background(lease: Lease, driver: Driver) -> object:
        while owed:
            background, work = owed.pop()
            run_blocking(background._do(work))
        return ask_to_end(lease, driver)

    owed: list[tuple[Background, Any]] = []
    ask_to_end = Lease.ask_to_end
    with Lock(name, mode="shared") as hold:
        with monkeypatch.context() as patched:
            patched.setattr(Background, "add", lambda self, work, _: owed.append((self, work)))
            calls.intercept(patched, "acquire", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hold.upgrade(wait=0)
        assert owed
        monkeypatch.setattr(Lease, "ask_to_end", release_after_the_background)
    assert not owed
    assert inspection.lock(name) is None
