"""A process as on another host: it holds locks and waits for some, and says how that ends."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from redis_locks import Lock, LockError, LockLost
from tests.forking import processes
from tests.support.world import until


def work(connection: Connection, host: str, url: str, prefix: str) -> None:
    """Hold "HOST:thread:PID" in a thread and "HOST:task:PID" in a task, and wait for "wanted"."""
    import django
    from django.conf import settings

    settings.configure(REDIS_LOCKS={"CONNECTION": url, "PREFIX": prefix})
    django.setup()
    socket.gethostname = lambda: host
    began = threading.Barrier(3)
    others = [
        threading.Thread(target=_wait, args=[connection], daemon=True),
        threading.Thread(
            target=lambda: asyncio.run(_hold_in_a_task(connection, host, began)), daemon=True
        ),
        threading.Thread(target=_hold, args=[connection, host, began], daemon=True),
    ]
    for other in others:
        other.start()
    began.wait()
    _say(connection, "began")
    for other in others:
        other.join()


def _hold(connection: Connection, host: str, began: threading.Barrier) -> None:
    hold = Lock(f"{host}:thread:{os.getpid()}", lease=60).acquire()
    assert hold
    began.wait()
    until(lambda: hold.is_lost, within=600)
    _say(connection, "thread", "lost")


async def _hold_in_a_task(connection: Connection, host: str, began: threading.Barrier) -> None:
    with suppress(LockLost):
        async with Lock(f"{host}:task:{os.getpid()}", lease=60):
            began.wait()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                _say(connection, "task", "cancelled")
                raise


def _wait(connection: Connection) -> None:
    try:
        Lock("wanted", wait=None).acquire()
    except LockError as error:
        _say(connection, "wait", str(error))


def _say(connection: Connection, *what: str) -> None:
    connection.send((os.getpid(), *what))


class Party:
    """Such a process, seen from here."""

    def __init__(self, host: str, url: str, prefix: str) -> None:
        self._connection, theirs = processes.Pipe()
        self._process = processes.Process(
            target=work, args=(theirs, host, url, prefix), daemon=True
        )
        self._process.start()
        theirs.close()

    def hear(self, patience: float = 20) -> tuple[Any, ...]:
        """The next thing that it says, after its pid."""
        assert self._connection.poll(patience), "it said nothing in time"
        pid, *said = self._connection.recv()
        assert pid == self._process.pid
        return tuple(said)

    def is_silent(self) -> bool:
        """Whether it has said nothing more."""
        return not self._connection.poll()

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self._process.kill()
        self._process.join()


@contextmanager
def parties(url: str, prefix: str) -> Iterator[Callable[[str], Party]]:
    """Yield what starts such a process on a host and waits until it holds."""
    started: list[Party] = []

    def start(host: str) -> Party:
        started.append(Party(host, url, prefix))
        assert ("began",) == started[-1].hear()
        return started[-1]

    try:
        yield start
    finally:
        for party in started:
            party.kill()
