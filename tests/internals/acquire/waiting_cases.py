"""Who waits does so in the shortest way of blocking code as in the longer ones, whatever it hears."""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple, Self
from unittest.mock import patch

from redis_locks import Hold, inspection, scripts
from redis_locks.conf import settings as conf
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import Unreachable, run_blocking
from redis_locks.drivers.blocking import ALONE, BlockingDriver
from redis_locks.locks import lock
from redis_locks.protocol import acquire, lock_events, store
from redis_locks.protocol.callers import new_token
from redis_locks.protocol.store import Request, Won
from redis_locks.values.identity import written
from redis_locks.values.keys import grant_channel, holder_channel
from tests.internals.acquire.stage import LEASE, Stage, lose, nothing, once
from tests.support import stored
from tests.support.world import PATIENCE, Threads, keys_of, until


def out_of_time(stage: Stage) -> Any:
    with stage.lock:
        return Threads().start(stage.lock.acquire, wait=0.005).result(PATIENCE)


def handed_on(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
    stage.end(waiting)


def cancelled(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
        (waiter,) = inspection.waiters(using=stage.using)
        assert inspection.cancel(waiter, using=stage.using)
        waiting.result(PATIENCE)


def broken_in_line(stage: Stage) -> None:
    with stage.lock:
        waiting = stage.in_line()
        claims = stored.claims_of_waiters(stage.client, keys_of(stage.lock.name).lock)
        stage.kill_connections()
        # It stands there still, and is heard elsewhere.
        until(
            lambda: stored.claims_of_waiters(stage.client, keys_of(stage.lock.name).lock) != claims
        )
    stage.end(waiting)


def long(stage: Stage) -> None:
    """After a while that is told, and nothing asked, as it holds nothing that another could wait for."""
    hasty = conf.get_settings()._replace(deadlock_timeout=0.01)
    told, tell = [], lock_events.tell_refused

    async def noted(driver: Any, kind: Any, *args: Any, **details: Any) -> None:
        await tell(driver, kind, *args, **details)
        told.append(kind)

    with (
        patch.object(lock, "get_settings", lambda: hasty),
        patch.object(lock_events, "tell_refused", noted),
        stage.lock,
    ):
        waiting = stage.in_line()
        until(lambda: "waiting" in told)
    stage.end(waiting)


class Waiter(NamedTuple):
    """The only one that waits: its token, where it hears, and when it came, in ms of the server's time."""

    token: str
    listener: str
    since: int

    @classmethod
    def of(cls, stage: Stage) -> Self:
        lock = keys_of(stage.lock.name).lock
        (token,) = stored.line(stage.client, lock)
        claim = stored.claim_of_waiter(stage.client, lock, token.decode())
        _, since, _, _, listener, *_ = claim.decode().split()
        return cls(token.decode(), listener, int(since))

    def tell(self, stage: Stage, *, fencing_token: int, at_ms: int) -> None:
        """Tell it something, as who releases or looks for a deadlock does."""
        channel = grant_channel("redis_locks", self.listener)
        assert stage.client.publish(channel, f"{self.token} {fencing_token} {at_ms}")


def told_to_look(stage: Stage) -> None:
    """Somebody else has seen a deadlock that only this waiter can end; so it looks at once."""
    with stage.lock:
        waiting = stage.in_line()
        waiter = Waiter.of(stage)
        waiter.tell(stage, fencing_token=0, at_ms=waiter.since + 1)
        until(lambda: stage.observed.noted(stage.lock.name))
        assert not waiting.done()
    stage.end(waiting)


def told_of_an_old_grant(stage: Stage) -> None:
    """It was over before the server said that somebody else holds; the right one comes later."""
    with stage.lock:
        waiting = stage.in_line()
        waiter = Waiter.of(stage)
        waiter.tell(stage, fencing_token=1, at_ms=waiter.since - 1)
        until(lambda: len(stage.ran) >= 3)  # it has asked again
        assert not waiting.done()
    stage.end(waiting)


def away_in_line(stage: Stage) -> None:
    """The server is not there for a moment; it was when the waiter came, so that goes on."""
    away: list[Waiter] = []

    def unreachable(_: object) -> None:
        away.append(Waiter.of(stage))
        msg = "nobody is there"
        raise Unreachable(msg)

    connects = once(BlockingDriver, "_connected", lambda: True, nothing, unreachable)
    hasty = patch.object(acquire, "_SNAG", 0.0)
    with hasty, stage.lock, stage.listening(before=lose), connects:
        waiting = stage.in_line()
        until(lambda: waiting.done() or (away and Waiter.of(stage) != away[0]))
    stage.end(waiting)


def stopped_past_the_grant(stage: Stage) -> None:
    """It wakes up when the lease of what it is granted is over, and asks again."""
    brief = stage.again(lease=0.1, renew=False)
    over: list[int | None] = []

    def outlast(_: object) -> None:
        over.append(stage.observed.fencing_token(stage.lock.name))
        until(lambda: not stage.observed.holder(stage.lock.name))

    with stage.listening(after=outlast):
        with stage.lock:
            waiting = stage.in_line(brief)
        hold = waiting.result(PATIENCE)
    assert isinstance(hold, Hold)
    assert (over[0] or 0) < hold.fencing_token
    hold.lease.deadline = 0.0
    hold.release()


def behind_one_that_is_gone(stage: Stage) -> None:
    """Its process listens no more, and it is to lose the lock then."""
    gone = written(1, "thread", "gone", holder_channel("redis_locks", "nobody"))
    backend = backend_for(stage.using)
    keys = backend.keys(stage.lock.name)
    link = run_blocking(stage.driver.checkout())
    request = Request(keys, new_token(), LEASE * 1000, "exclusive", gone)
    outcome, _ = run_blocking(store.acquire(link, request, 0, monotonic()))
    assert isinstance(outcome, Won)
    stage.driver.checkin(link)
    with stage.lock as hold:
        stage.checked(hold)


def behind_one_that_may_be_gone(stage: Stage) -> None:
    looked: list[object] = []
    with stage.asking(scripts.CRASH_RELEASE, after=looked.append):
        with stage.again(crash_release=True):
            waiting = stage.in_line()
            until(lambda: looked)
        stage.end(waiting)


def one_of_many(stage: Stage) -> None:
    """The first few hear on a connection each, and the others on one that they share."""
    with stage.lock:
        waiting = [stage.in_line() for _ in range(ALONE + 2)]
    for each in waiting:
        stage.end(each)


def one_too_many(stage: Stage) -> None:
    """Others have sat down while it asked; so it asks again, to be heard where others are."""
    others = set(range(-ALONE, 0))
    with stage.lock:
        with stage.asking(scripts.ACQUIRE, after=lambda _: stage.driver._alone.update(others)):
            waiting = stage.in_line()
        until(
            lambda: Waiter.of(stage).listener not in {link.listener for link in stage.driver._open}
        )
        stage.driver._alone.difference_update(others)
    stage.end(waiting)
