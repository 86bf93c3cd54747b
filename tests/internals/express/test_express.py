"""The shortest way of blocking code does what the longer ones do, at every turn it can leave them."""

from __future__ import annotations

from typing import Any

from redis_locks import scripts
from redis_locks.drivers.blocking_link import BlockingLink
from tests.internals.express import ways
from tests.internals.express.stage import Stage, lose
from tests.internals.express.ways import BothWays, Case
from tests.support.world import PATIENCE, Threads, keys_of


def free(stage: Stage) -> None:
    with stage.lock as hold:
        stage.checked(hold)


def refused(stage: Stage) -> Any:
    with stage.lock:
        return Threads().start(stage.lock.acquire, wait=0).result(PATIENCE)


def without_connection_when_acquired(stage: Stage) -> None:
    stage.driver.drop_idle()
    with stage.lock as hold:
        stage.checked(hold)


def without_connection_when_released(stage: Stage) -> None:
    with stage.lock:
        stage.driver.drop_idle()


def unknown_when_acquired(stage: Stage) -> None:
    stage.client.script_flush()
    with stage.lock as hold:
        stage.checked(hold)


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
    with stage.lock as hold:
        stage.checked(hold)


def broken_when_released(stage: Stage) -> None:
    with stage.lock:
        stage.kill_connections()


def lost_reply_when_acquired(stage: Stage) -> None:
    with stage.asking(scripts.ACQUIRE, after=lose), stage.lock as hold:
        stage.checked(hold)


def lost_reply_when_released(stage: Stage) -> None:
    with stage.asking(scripts.RELEASE, after=lose), stage.lock:
        pass


def lost_reply_when_released_too_late(stage: Stage) -> None:
    """Nobody knows that it was released in time when its lease is over."""
    hold = stage.lock.acquire()
    assert hold

    def outlast(link: BlockingLink) -> None:
        hold._lease.deadline = 0.0
        lose(link)

    with stage.asking(scripts.RELEASE, after=outlast):
        hold.release()


def lost(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)


def lost_with_an_error(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        raise KeyError


def lost_without_connection(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        stage.driver.drop_idle()


def lost_when_unknown(stage: Stage) -> None:
    with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        stage.client.script_flush()


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


@ways.cases(
    {
        free: 0,
        refused: 0,
        without_connection_when_acquired: 0,
        without_connection_when_released: 0,
        unknown_when_acquired: 2,
        unknown_when_released: 1,
        refused_by_the_server: 1,
        broken_when_acquired: 0,
        broken_when_released: 0,
        lost_reply_when_acquired: 0,
        lost_reply_when_released: 0,
        lost_reply_when_released_too_late: 0,
        lost: 1,
        lost_with_an_error: 1,
        lost_without_connection: 0,
        lost_when_unknown: 1,
        over: 0,
        nested: 0,
        released_early: 0,
    }
)
def test_both_ways_come_to_the_same_end(case: Case, again: int | None, both_ways: BothWays) -> None:
    shortest, longer = both_ways(case, again)
    assert longer == shortest
    assert set() == shortest.left
