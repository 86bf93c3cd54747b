"""What is done in the background of a process, until the server answers."""

from __future__ import annotations

import os
import select
import signal
from time import monotonic

from redis_locks.drivers.base import Link
from redis_locks.testing.server import EmbeddedServer
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
