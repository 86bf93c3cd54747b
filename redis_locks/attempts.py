"""One acquire: asks until it is granted or out of time, over as many links as that takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from redis_locks import observing, store
from redis_locks.claims import parse_who
from redis_locks.drivers.base import CUT_SHORT, CutShort, Driver, Link, LinkBroken, Unreachable
from redis_locks.exceptions import DeadlockDetected, LockBackendError, LockError, Wait
from redis_locks.identity import caller, holds_nothing, unconfirmed
from redis_locks.store import Granted, Refused, Request

RECHECK = 6.0
"""Seconds between two signs of life of a waiter, at most.

Less for a lock with a short lease, and so of those before it, most likely: one of them may be handed the lock and die.
"""

SOONEST = 0.5
"""Seconds between them at least, whatever the lease is."""

LOOK_AGAIN = 2.0
"""Seconds between two looks for a deadlock."""

BURIAL = 0.25
"""Seconds between two looks at a holder that is to lose the lock when its process is gone."""

_EXPIRY_SLACK = 0.005
_LATE = 0.1
_TRIES = 5
_BACKOFF = 0.25
_SNAG = 0.25
"""Seconds within which a failed attempt to connect may be a passing one, such as a connection killed half open."""


class Won(NamedTuple):
    """A hold: its fencing token, and when its lease ends on this process's monotonic clock.

    `read` are the replies to what was asked to be read as soon as it was held; `waited` are the
    seconds in the queue; `since` is when it began, if that is known better than by the lease.
    """

    fencing_token: int
    deadline: float
    read: list[Any]
    waited: float = 0.0
    since: float | None = None


Step = Coroutine[Any, Any, Won | Refused | None]
"""What an attempt does next; None when it is to ask again."""


def _wait(names: list[str], mode: str, who: str, where: str, **_: object) -> Wait:
    return Wait(tuple(names), mode.partition(":")[0], str(parse_who(who)), where)


class Attempt:
    """One acquire; keeps what its retries must know.

    Attributes:
        link: What it asks and listens on.
        sent: Whether anything was sent.
        queued: Whether it may stand in the queue.
        uncontended: Whether nobody was told yet that somebody else has the lock.
        wait_ms: For how long to stand in the queue when it asks first, as `store.acquire` takes it.
        meanwhile: What to do while the server is at work, in blocking code.
    """

    link: Link | None = None
    sent = queued = False
    uncontended = True
    meanwhile: Callable[[], object] | None = None
    _told = False
    _failures = 0
    _ask_at = 0.0
    suspicious_at = long_at = inf
    _recheck = RECHECK

    def __init__(
        self,
        driver: Driver,
        request: Request,
        wait: float | None,
        patience: float | None = None,
        since: float | None = None,
    ) -> None:
        self.driver = driver
        self.request = request
        self.token = request.token
        self.wait = wait
        if since is None:
            self.started = monotonic()
        else:
            self.started, self.uncontended = since, False
        if patience is not None:
            self.suspicious_at = self.long_at = self.started + patience
        self.wait_ms = (int(wait * 1000) or 1) if wait else -1 if wait is None else 0

    async def run(self, step: Step) -> Won | Refused:
        """Do `step`, which is to `ask` at first, and ask again until granted or out of time."""
        while True:
            try:
                outcome = await step
                if outcome is not None:
                    return outcome
                step = self.ask()
            except LinkBroken as error:
                step = self.reconnect(error)

    async def ask(self) -> Won | Refused | None:
        """Ask, and stand in the queue until it is time to ask again."""
        request = self.request
        link = self.link or self.keep(await self.driver.checkout_to_wait())
        if link.tunes_in:
            await link.tune_in(request.keys)
        sent = monotonic()
        first, self.sent = not self.sent, True
        wait_ms = max(1, int(self._left(sent) * 1000)) if self.wait else self.wait_ms
        nowait = self.wait == 0
        if sent >= self.suspicious_at and not nowait:
            reply = await self._ask_and_look(link, wait_ms, first=first)
        else:
            reply = await store.acquire(link, request, wait_ms, first=first)
        if isinstance(reply, Granted):
            deadline = sent + request.lease_ms / 1000
            waited = self.waited() if self.queued or not self.uncontended else 0.0
            return Won(reply.fencing_token, deadline, reply.read or [], waited)
        self.queued = not nowait
        self._recheck = RECHECK
        if store.may_be_buried(reply.claim) and await self._buried(link):
            return None
        await self._tell(reply)
        if nowait:
            return reply
        self._failures = 0
        return await self._stand(link, reply, sent)

    async def _stand(self, link: Link, reply: Refused, sent: float) -> Won | Refused | None:
        """Stand in the queue until granted, out of time, or (None) until it is time to ask again."""
        seat = await self.driver.seat(link)
        if seat is not link:
            # What it is granted while it changes, the next question tells.
            self.close()
            self.keep(seat)
            return None
        message = await link.receive(self.token, self.pause(reply))
        return await self.heard(link, message, reply, sent)

    async def heard(
        self, link: Link, message: bytes | None, reply: Refused, sent: float
    ) -> Won | Refused | None:
        """Go on after `message`, or None, was heard after `reply` to what was sent then; see `_stand`."""
        # Not if it stood still meanwhile, as its connection may have been gone then.
        if (
            message is None
            and 0 <= monotonic() - self.long_at < _LATE
            and monotonic() < self._ask_at
        ):
            await self._tell(reply)
            message = await link.receive(self.token, max(0.0, self._ask_at - monotonic()))
        won = None
        if message is not None:
            granted = store.grant_message(message)
            if granted.fencing_token == 0:
                # Somebody found a deadlock that only we can end.
                self.suspicious_at, self._told = monotonic(), True
            elif granted.fencing_token < 0:
                msg = "The wait for this lock was cancelled by an operator"
                raise LockError(msg)
            else:
                won = self.won_by(granted, reply, sent)
        if won is None:
            if self._left(monotonic()) <= 0:
                return await self.abandon()
        elif reads := self.request.reads:
            return won._replace(read=await link.read(reads, self.request.keys))
        return won

    async def _buried(self, link: Link) -> bool:
        """Whether who was in the way was gone, and is in the way no more; else to be asked again soon."""
        self._recheck = BURIAL
        return await store.bury(link, self.request.keys, self.token) > 0

    def waited(self) -> float:
        """Return the seconds since it began."""
        return monotonic() - self.started

    async def _tell(self, refused: Refused) -> None:
        """Tell once that there is contention, and once that the wait has become a long one."""
        driver, request, wait = self.driver, self.request, self.wait
        if self.uncontended:
            self.uncontended = False
            await observing.tell_refused(driver, "contended", request, refused, wait=wait)
        elif monotonic() >= self.long_at:
            self.long_at = inf
            waited = self.waited()
            await observing.tell_refused(
                driver, "waiting", request, refused, wait=wait, waited=waited
            )

    def keep(self, link: Link) -> Link:
        """Use `link` until `close`, and hear grants there."""
        self.link = link
        link.listen(self.request.token)
        return link

    def _left(self, now: float) -> float:
        return inf if self.wait is None else self.started + self.wait - now

    def pause(self, reply: Refused) -> float:
        """Return for how many seconds to listen, after `reply`, until it is time to ask again, or to tell of a long wait."""
        holder_left = max(0.0, (reply.ends_ms - reply.at_ms) / 1000) + _EXPIRY_SLACK
        if not self._told and holds_nothing(self.token, task=self.driver.suspends):
            # It closes no circle; who does sees what it waits for.
            self.suspicious_at = inf
        now = monotonic()
        recheck = min(self._recheck, max(SOONEST, self.request.lease_ms / 1000))
        left = min(self._left(now), holder_left, recheck, self.suspicious_at - now)
        self._ask_at = now + left
        return max(0.0, min(left, self.long_at - now))

    def won_by(self, granted: Granted, reply: Refused, sent: float) -> Won | None:
        """Return what was granted by a message heard just now, after `reply` to what was sent then; None if it is over."""
        if granted.at_ms < reply.at_ms:
            # We stood still: this grant had ended before the server told us that we do not hold.
            return None
        heard = monotonic()
        # The grant is older than its message. Both bounds hold on our clock; the second one
        # also when the server's clock was set forward meanwhile.
        waited = (granted.at_ms - reply.at_ms) / 1000
        deadline = min(sent + waited, heard) + self.request.lease_ms / 1000
        if deadline <= heard:
            return None  # stopped between grant and wake-up: it is over, ask again
        return Won(granted.fencing_token, deadline, [], heard - self.started)

    async def _ask_and_look(self, link: Link, wait_ms: int, *, first: bool) -> Granted | Refused:
        """Ask, and look for a deadlock in the same round trip. Raises DeadlockDetected."""
        self.suspicious_at = monotonic() + LOOK_AGAIN
        self._told = False
        detection = store.detect_call(self.request, caller(), unconfirmed())
        reply, found = await store.ask_and_detect(
            link, self.request, wait_ms, detection, first=first
        )
        if found is None:
            return reply
        circle = tuple(_wait(**member) for member in found)
        waits = "".join(f"\n  {wait}" for wait in circle)
        msg = f"Deadlock: this wait was ended so that the others can go on.{waits}"
        raise DeadlockDetected(msg, circle)

    async def abandon(self) -> Refused:
        """Leave the queue on a link that works; return who holds the lock."""
        request = self.request
        last: LinkBroken | None = None
        started = monotonic()
        for _ in range(_TRIES):
            try:
                link = self.link or self.keep(await self.driver.checkout_to_wait())
                return await store.abandon(link, request)
            except LinkBroken as error:
                last = error
                self.close(broken=True)
                if isinstance(error, Unreachable) and monotonic() - started > _SNAG:
                    break
        raise LockBackendError(f"{self.driver.description} does not answer: {last}")

    def forsake(self) -> None:
        """Leave a place behind that the server did not let us give up: nobody hears of its grant."""
        if self.link is not None:
            self.link.forsake()

    async def reconnect(self, error: LinkBroken) -> None:
        """Get ready for another try, or raise `LockBackendError`."""
        self.close(broken=True)
        self._failures += 1
        in_time = self._left(monotonic()) > 0
        # Nothing listens there: say so at once, unless we had a place in the queue, which
        # means that the server was there and is likely to come back.
        snag = (
            monotonic() - self.started < CUT_SHORT
            if isinstance(error, CutShort)
            else self._failures < _TRIES and monotonic() - self.started < _SNAG
        )
        hopeless = isinstance(error, Unreachable) and not (snag or (self.queued and in_time))
        if hopeless or not (in_time or self._failures < _TRIES):
            raise LockBackendError(str(error)) from error
        if self._failures > 1:
            limit = min(_BACKOFF, 0.005 * 2**self._failures)
            await self.driver.sleep(random.uniform(limit / 2, limit))  # noqa: S311 - jitter, no secret

    def close(self, *, broken: bool = False) -> None:
        """Give the link back."""
        link, self.link = self.link, None
        if link is not None:
            link.unlisten(self.request.token)
            self.driver.checkin(link)
        if broken:
            self.driver.drop_idle()
