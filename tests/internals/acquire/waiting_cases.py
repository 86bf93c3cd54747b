"""Who waits does so in the shortest way of blocking code as in the longer ones, whatever it hears."""

from __future__ import annotations

from typing import Any, NamedTuple, Self
from unittest.mock import patch

from redis_locks import Hold, inspection
from redis_locks.conf import settings as conf
from redis_locks.drivers.blocking import ALONE
from redis_locks.locks import lock
from redis_locks.protocol import lock_events
from redis_locks.values.keys import grant_channel
from tests.internals.acquire.stage import Stage
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


def one_of_many(stage: Stage) -> None:
    """The first few hear on a connection each, and the others on one that they share."""
    with stage.lock:
        waiting = [stage.in_line() for _ in range(ALONE + 2)]
    for each in waiting:
        stage.end(each)
