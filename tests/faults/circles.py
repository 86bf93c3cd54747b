"""Parties that wait for each other: main threads of processes, other threads, and tasks of an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from tests.forking import processes
from tests.support.connections import run_blocking
from tests.support.world import PATIENCE


class Want(NamedTuple):
    """What a party takes: locks, or with `capacity` a permit; `upgrade`: what it holds, for itself alone."""

    names: tuple[str, ...] = ()
    mode: str = "exclusive"
    capacity: int | None = None
    upgrade: bool = False

    def lock(self) -> Any:
        from redis_locks import Lock, Semaphore

        if self.capacity is not None:
            return Semaphore(self.names[0], self.capacity, wait=PATIENCE)
        return Lock(*self.names, mode=self.mode, wait=PATIENCE)  # type: ignore[arg-type]


class Party(NamedTuple):
    """Who takes something and, once it is told to, something more; `kind` is "main", "thread" or "task"."""

    host: int
    kind: str
    has: Want | None
    wants: Want


class Outcome(NamedTuple):
    """How it ended, with times of CLOCK_MONOTONIC, which all processes of a machine share."""

    began: float
    ended: float
    error: Exception | None


class Blocking:
    """How a thread takes and gives back; nothing here suspends."""

    @staticmethod
    async def take(want: Want, held: Any) -> Any:
        return held.upgrade(wait=PATIENCE) if want.upgrade else want.lock().acquire()

    @staticmethod
    async def release(hold: Any) -> None:
        hold.release()

    @staticmethod
    async def wait(go: threading.Event) -> None:
        go.wait(PATIENCE)


class Suspending:
    """How a task does."""

    @staticmethod
    async def take(want: Want, held: Any) -> Any:
        return await (held.aupgrade(wait=PATIENCE) if want.upgrade else want.lock().aacquire())

    @staticmethod
    async def release(hold: Any) -> None:
        await hold.arelease()

    @staticmethod
    async def wait(go: threading.Event) -> None:
        await asyncio.to_thread(go.wait, PATIENCE)


LINES = {way.take.__code__.co_firstlineno + 2 for way in (Blocking, Suspending)}
"""The lines that wait."""

Say = Callable[[object], None]


async def play(party: Party, go: threading.Event, say: Say, way: Any) -> None:
    """Be a party."""
    held = await way.take(party.has, None) if party.has else None
    say("holds")
    await way.wait(go)
    began, more, error = time.monotonic(), None, None
    try:
        more = await way.take(party.wants, held)
    except Exception as raised:  # noqa: BLE001 - is told
        error = raised
    outcome = Outcome(began, time.monotonic(), error)
    for hold in filter(None, (more, held)):
        await way.release(hold)
    say(outcome)


class Host:
    """What a process with parties in it does."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent
        self._mutex = threading.Lock()
        self._go: dict[int, threading.Event] = {}
        self._mine: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self) -> None:
        # The main thread waits for locks too, so somebody else listens.
        threading.Thread(target=self._listen, daemon=True).start()
        while arguments := self._mine.get():
            run_blocking(play(*arguments, Blocking))

    def _say(self, number: int, what: object) -> None:
        with self._mutex:
            self._parent.send((number, what))

    def _listen(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                number, party = self._parent.recv()
                if party is None:
                    self._go[number].set()
                else:
                    self._begin(number, party)
        self._mine.put(None)

    def _begin(self, number: int, party: Party) -> None:
        go = self._go[number] = threading.Event()
        arguments = (party, go, partial(self._say, number))
        if party.kind == "main":
            self._mine.put(arguments)
        elif party.kind == "thread":
            coroutine = play(*arguments, Blocking)
            threading.Thread(target=run_blocking, args=(coroutine,), daemon=True).start()
        else:
            asyncio.run_coroutine_threadsafe(play(*arguments, Suspending), self._loop)


def host(settings: dict[str, Any], parent: Connection) -> None:
    """Have parties until there are no more orders; the main function of a process."""
    import django
    from django.conf import settings as django_settings

    logging.disable()  # what is to be seen is told
    django_settings.configure(REDIS_LOCKS=settings)
    django.setup()
    Host(parent).run()


class Hosts:
    """Processes with parties in them. Everything is gone on exit."""

    def __init__(self, count: int, **settings: Any) -> None:
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(count):
            pipe, theirs = processes.Pipe()
            process = processes.Process(target=host, args=(settings, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        self.pids = [process.pid for process in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(PATIENCE)
            process.kill()

    def meet(self, parties: Sequence[Party], queued: Callable[[int], None]) -> list[Outcome]:
        """Let all take what they have, then one after the other what they want; return how it ended.

        `queued` returns once the party of that number stands in a queue; only then comes the next one.
        """
        for number, party in enumerate(parties):
            self._pipes[party.host].send((number, party))
            assert (number, "holds") == self._next(party.host)
        for number, party in enumerate(parties):
            self._pipes[party.host].send((number, None))
            queued(number)
        outcomes: dict[int, Any] = {}
        for party in parties:
            number, outcome = self._next(party.host)
            outcomes[number] = outcome
        return [outcomes[number] for number in range(len(parties))]

    def _next(self, number: int) -> tuple[int, Any]:
        assert self._pipes[number].poll(PATIENCE * 2), "a party did not answer in time"
        return self._pipes[number].recv()  # type: ignore[no-any-return]
