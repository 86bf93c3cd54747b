"""An interrupt leaves as little behind in the shortest way of blocking code as in the longer ones."""

from __future__ import annotations

from redis_locks import scripts
from redis_locks.drivers.blocking import BlockingDriver
from tests.internals.acquire.stage import Stage, interrupt, nothing, once
from tests.support.world import PATIENCE, Threads


def before_it_asks(stage: Stage) -> None:
    with stage.asking(scripts.ACQUIRE, before=interrupt), stage.lock:
        pass


def when_granted(stage: Stage) -> None:
    with stage.asking(scripts.ACQUIRE, after=interrupt), stage.lock:
        pass


def when_it_gives_its_connection_back(stage: Stage) -> None:
    """It was granted, and nobody has the hold yet."""
    with once(BlockingDriver, "checkin", lambda *_: True, nothing, interrupt), stage.lock:
        pass


def when_it_stands_in_line(stage: Stage) -> None:
    with stage.lock, stage.asking(scripts.ACQUIRE, after=interrupt):
        Threads().start(stage.lock.acquire, wait=PATIENCE).result(PATIENCE)


def before_it_listens(stage: Stage) -> None:
    with stage.lock, stage.listening(before=interrupt):
        Threads().start(stage.lock.acquire, wait=PATIENCE).result(PATIENCE)


def when_handed_on(stage: Stage) -> None:
    with stage.listening(after=interrupt):
        with stage.lock:
            waiting = stage.in_line()
        waiting.result(PATIENCE)
