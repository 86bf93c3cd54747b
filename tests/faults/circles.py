"""Parties that wait for each other: main threads of processes, other threads, and tasks of an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from tests.contract.world import PATIENCE
from tests.forking import processes


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


def take(want: Want, held: Any) -> Any:
    """Acquire it: the line that waits."""
    return held.upgrade(wait=PATIENCE) if want.upgrade else want.lock().acquire()


async def atake(want: Want, held: Any) -> Any:
    """Acquire it in a task: the line that waits."""
    return await (held.aupgrade(wait=PATIENCE) if want.upgrade else want.lock().aacquire())


def play(party: Party, go: threading.Event, say: Callable[..., None]) -> None:
    """Be a party, as a thread."""
    held = take(party.has, None) if party.has else None
    say("holds")
    go.wait(PATIENCE)
    began, more, error = time.monotonic(), None, None
    try:
        more = take(party.wants, held)
    except Exception as raised:  # noqa: BLE001 - is told
        error = raised
    outcome = Outcome(began, time.monotonic(), error)
    for hold in filter(None, (more, held)):
        hold.release()
    say(outcome)


async def aplay(party: Party, go: threading.Event, say: Callable[..., None]) -> None:
    """Be a party, as a task."""
    held = await atake(party.has, None) if party.has else None
    say("holds")
    await asyncio.to_thread(go.wait, PATIENCE)
    began, more, error = time.monotonic(), None, None
    try:
        more = await atake(party.wants, held)
    except Exception as raised:  # noqa: BLE001 - is told
        error = raised
    outcome = Outcome(began, time.monotonic(), error)
    for hold in filter(None, (more, held)):
        await hold.arelease()
    say(outcome)


def host(settings: dict[str, Any], parent: Connection) -> None:
    """Run the parties of this process until there are no more orders; the main function of a process."""
    import django
    from django.conf import settings as django_settings

    logging.disable()  # what is to be seen is told
    django_settings.configure(REDIS_LOCKS=settings)
    django.setup()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    mutex = threading.Lock()
    go: dict[int, threading.Event] = {}

    def sayer(number: int) -> Callable[..., None]:
        def say(what: object) -> None:
            with mutex:
                parent.send((number, what))

        return say

    # The main thread waits for locks too, so somebody else listens.
    mine: list[Callable[[], None]] = []
    called = threading.Semaphore(0)

    def listen() -> None:
        with contextlib.suppress(EOFError):
            while True:
                number, party = parent.recv()
                if party is None:
                    go[number].set()
                    continue
                go[number] = threading.Event()
                arguments = (party, go[number], sayer(number))
                if party.kind == "task":
                    asyncio.run_coroutine_threadsafe(aplay(*arguments), loop)
                elif party.kind == "thread":
                    threading.Thread(target=play, args=arguments, daemon=True).start()
                else:
                    mine.append(lambda arguments=arguments: play(*arguments))  # type: ignore[misc]
                    called.release()
        called.release()

    threading.Thread(target=listen, daemon=True).start()
    while called.acquire() and mine:
        mine.pop()()


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
