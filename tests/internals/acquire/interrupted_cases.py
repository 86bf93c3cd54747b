"""An interrupt leaves as little behind in the shortest way of blocking code as in the longer ones."""

from __future__ import annotations

from redis_locks import Hold, scripts
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.protocol.callers import Held
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


def when_refused(stage: Stage) -> None:
    with stage.lock, stage.asking(scripts.ACQUIRE, after=interrupt):
        Threads().start(stage.lock.acquire, wait=0).result(PATIENCE)


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


def acquired(stage: Stage) -> Hold:
    hold = stage.lock.acquire()
    assert hold
    return hold


def before_it_releases(stage: Stage) -> None:
    with stage.asking(scripts.RELEASE, before=interrupt), acquired(stage):
        pass


def when_nobody_finds_it_any_more(stage: Stage) -> None:
    """In the shortest way the server is at work meanwhile."""
    with once(Held, "pop", lambda *_: True, nothing, interrupt), acquired(stage):
        pass


def when_released(stage: Stage) -> None:
    with stage.asking(scripts.RELEASE, after=interrupt), acquired(stage):
        pass


def before_it_releases_early(stage: Stage) -> None:
    hold = acquired(stage)
    with stage.asking(scripts.RELEASE, before=interrupt):
        hold.release()


def when_released_early(stage: Stage) -> None:
    hold = acquired(stage)
    with stage.asking(scripts.RELEASE, after=interrupt):
        hold.release()


def when_it_gives_the_connection_of_a_release_back(stage: Stage) -> None:
    hold = acquired(stage)
    with once(BlockingDriver, "checkin", lambda *_: True, nothing, interrupt):
        hold.release()
