"""Reads that ride with an acquire, and commits: in the shortest way of blocking code as in the longer ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from redis.exceptions import ResponseError

from redis_locks import Hold, Lock, LockError, LockNotHeld, scripts
from redis_locks.tenure import Tenure
from tests.internals.express import ways
from tests.internals.express.stage import LEASE, Stage, interrupt, lose
from tests.internals.express.ways import BothWays, Case
from tests.support.world import keys_of


def data(stage: Stage) -> str:
    return f"{stage.lock.name}:data"


def reading(stage: Stage) -> Lock:
    """The lock, and with it the data: as it is, how long, and something that is not there."""
    return stage.again(read=[("GET", data(stage)), ("STRLEN", data(stage)), ("GET", "nothing")])


def commit(stage: Stage, hold: Hold) -> None:
    pipe = stage.client.pipeline().incr(data(stage)).append(data(stage), "!")
    try:
        hold.commit(pipe)
    finally:
        assert stage.client.delete(data(stage)) == (not len(pipe))


def free(stage: Stage) -> list[Any]:
    stage.client.set(data(stage), "41")
    with reading(stage) as hold:
        stage.client.delete(data(stage))
        return hold.read


def unknown_when_read(stage: Stage) -> list[Any]:
    stage.client.script_flush()
    return free(stage)


def lost_replies_when_read(stage: Stage) -> list[Any]:
    with stage.asking(scripts.ACQUIRE, after=lose):
        return free(stage)


def handed_on(stage: Stage) -> list[Any]:
    with stage.lock:
        waiting = stage.in_line(reading(stage))
        stage.client.set(data(stage), "42")  # what was there when it asked is of no use
    with waiting.result() as hold:
        stage.client.delete(data(stage))
        return stage.checked(hold).read


def broken_when_handed_on(stage: Stage) -> list[Any]:
    held = stage.lock.acquire()
    assert held
    with stage.listening(after=lambda link: link.close()):
        waiting = stage.in_line(reading(stage))
        held.release()
        with waiting.result() as hold:
            return stage.checked(hold).read


def wrong_type(stage: Stage) -> object:
    stage.client.rpush(data(stage), "a list")
    try:
        with reading(stage):
            return "held"
    except ResponseError as error:
        return error
    finally:
        stage.client.delete(data(stage))


def committed(stage: Stage) -> None:
    with stage.lock as hold:
        commit(stage, hold)


def committed_from_memory(stage: Stage) -> Any:
    """redis-py leaves a memoryview as it is."""
    with stage.lock as hold:
        every_second = memoryview(b"b.y.t.e.s")[::2]
        hold.commit(stage.client.pipeline().set(data(stage), every_second))
    return stage.client.getdel(data(stage))


def committed_twice(stage: Stage) -> None:
    with stage.lock as hold:
        commit(stage, hold)
        commit(stage, hold)


def committed_inside_another(stage: Stage) -> None:
    with stage.lock, stage.lock as nested:
        commit(stage, nested)


def script_when_released(stage: Stage) -> None:
    """What is wrong with the hold is said first."""
    with stage.lock as hold:
        hold.release()
        hold.commit(stage.client.pipeline().eval("return 1", 0))


def script_inside_another(stage: Stage) -> None:
    with stage.lock, stage.lock as nested:
        nested.commit(stage.client.pipeline().eval("return 1", 0))


def nothing_when_released(stage: Stage) -> None:
    with stage.lock as hold:
        hold.release()
        hold.commit(None)


def committed_again_when_interrupted(stage: Stage) -> int:
    """The same commands are applied once, and it can be known."""
    with stage.lock as hold:
        pipe = stage.client.pipeline().incr(data(stage))
        with stage.asking(scripts.COMMIT, after=interrupt), suppress(KeyboardInterrupt):
            hold.commit(pipe)
        hold.commit(pipe)
    return int(stage.client.getdel(data(stage)))


def other_commands_when_interrupted(stage: Stage) -> list[object]:
    """Nobody is told that they were applied."""
    with stage.lock as hold:
        with stage.asking(scripts.COMMIT, after=interrupt), suppress(KeyboardInterrupt):
            hold.commit(stage.client.pipeline().incr(data(stage)))
        other = stage.client.pipeline().incrby(data(stage), 100)
        with pytest.raises(LockError, match="begun already") as caught:
            hold.commit(other)
        return [str(caught.value), len(other), stage.client.getdel(data(stage))]


def committed_by_two_at_once(stage: Stage) -> list[object]:
    """Another thread comes just when the first one lets go of the hold: it is not told that its commands were applied."""
    ours, theirs = (stage.client.pipeline().incrby(data(stage), by) for by in (1, 100))
    with stage.lock as hold:
        leave_alone, said = Tenure.leave_alone, []

        def leave(tenure: Tenure, its: object) -> bool:
            left = leave_alone(tenure, its)
            if not said:
                said.append("")
                with pytest.raises(LockNotHeld) as caught:
                    hold.commit(theirs)
                said.append(str(caught.value))
            return left

        with mock.patch.object(Tenure, "leave_alone", leave):
            hold.commit(ours)
    return [*said, len(ours), len(theirs), stage.client.getdel(data(stage))]


def committed_to_a_waiter(stage: Stage) -> None:
    with stage.lock as hold:
        waiting = stage.in_line()
        commit(stage, hold)
        stage.end(waiting)


def committed_for_a_set(stage: Stage) -> None:
    with Lock(stage.lock.name, f"{stage.lock.name}-2", using=stage.using, lease=LEASE) as hold:
        commit(stage, hold)


def failing(stage: Stage) -> object:
    with stage.lock as hold:
        pipe = stage.client.pipeline().lpop(keys_of(stage.lock.name).holder)
        with pytest.raises(ResponseError, match="WRONGTYPE") as caught:
            hold.commit(pipe.incr(data(stage)))
        assert stage.client.delete(data(stage))
        return caught.value


def unknown_when_committed(stage: Stage) -> None:
    with stage.lock as hold:
        stage.client.script_flush()
        commit(stage, hold)


def broken_when_committed(stage: Stage) -> None:
    with stage.lock as hold:
        stage.kill_connections()
        commit(stage, hold)


def without_connection_when_committed(stage: Stage) -> None:
    with stage.lock as hold:
        stage.driver.drop_idle()
        commit(stage, hold)


def lost_reply_when_committed(stage: Stage) -> None:
    """Asked again, the server says that it was done: once, or the data would be "1!2!"."""
    with stage.lock as hold, stage.asking(scripts.COMMIT, after=lose):
        commit(stage, hold)


def interrupted_when_committed(stage: Stage) -> None:
    with stage.lock as hold, stage.asking(scripts.COMMIT, after=interrupt):
        try:
            hold.commit(stage.client.pipeline().incr(data(stage)))
        finally:
            stage.client.delete(data(stage))


def lost_when_committed(stage: Stage) -> None:
    with stage.lock as hold:
        stage.client.delete(keys_of(stage.lock.name).holder)
        commit(stage, hold)


def over_when_committed(stage: Stage) -> None:
    with stage.lock as hold:
        hold._lease.deadline = 0.0
        commit(stage, hold)


@ways.cases(
    {
        free: 0,
        unknown_when_read: 2,
        lost_replies_when_read: 0,
        handed_on: 0,
        broken_when_handed_on: 0,
        wrong_type: 0,
        committed: 0,
        committed_from_memory: 0,
        committed_twice: 0,
        committed_inside_another: 0,
        script_when_released: 0,
        script_inside_another: 0,
        nothing_when_released: 0,
        committed_again_when_interrupted: 0,
        other_commands_when_interrupted: 0,
        committed_by_two_at_once: 0,
        committed_to_a_waiter: 0,
        committed_for_a_set: 0,
        failing: 0,
        unknown_when_committed: 1,
        broken_when_committed: 0,
        without_connection_when_committed: 0,
        lost_reply_when_committed: 0,
        interrupted_when_committed: 0,
        lost_when_committed: 1,
        over_when_committed: 0,
    }
)
def test_both_ways_come_to_the_same_end(case: Case, again: int | None, both_ways: BothWays) -> None:
    shortest, longer = both_ways(case, again)
    assert longer == shortest
    assert set() == shortest.left
