"""Acquire: one round trip when the lock is free, else a place in the queue and silence.

`Lock` calls `acquire`. Nobody polls the server. The releasing process makes the first living waiter
the holder, and the server tells that waiter. A waiter asks again to take over from a holder that
died. It also asks every `RECHECK` seconds, in case a message was lost or the server forgot the
queue.

If the last wait for a lock was brief, the next first question wants no reply: see
`silent_questions`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Coroutine
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from redis_locks.drivers.base import (
    CUT_SHORT,
    Answered,
    Call,
    CutShort,
    Driver,
    Link,
    LinkBroken,
    OutOfTime,
    Silent,
    Unreachable,
)
from redis_locks.drivers.breaker import Away, note_failed_call
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.time_limits import in_time
from redis_locks.exceptions import (
    DeadlockDetected,
    LockBackendError,
    LockLost,
    ProtocolMismatch,
    Wait,
)
from redis_locks.protocol import lock_events, silent_questions, store
from redis_locks.protocol.callers import holds_nothing, note_unconfirmed, session, unconfirmed
from redis_locks.protocol.retry import TRIES, at_last, longest_pause, note_silence, persist
from redis_locks.protocol.silent_questions import Silence
from redis_locks.protocol.store import Granted, Looked, Refused, Request, Won
from redis_locks.values.claims import parse_who
from redis_locks.values.identity import caller

logger = logging.getLogger("redis_locks")

T = TypeVar("T")

RECHECK = 6.0
"""Seconds between two signs of life of a waiter, at most.

Less for a lock with a short lease: the waiters before it most likely have short leases too, and one
may die as holder.
"""

SOONEST = 0.5
"""Seconds between them at least, whatever the lease is."""

LOOK_AGAIN = 2.0
"""Seconds between two looks for a deadlock, unless the server asks for more."""

_DEAD: Final = 0.01
"""Seconds within which a link breaks that was dead before it was used."""

_SOONEST_LOOK = 0.006
"""Seconds in the queue before the first look, at least.

A grant to a waiter that came less than 5 ms ago forgets nothing: see NOTED_AFTER_MS in
``_prelude.lua``.
"""

_SPREAD = 0.5
"""The part of a pause by which it is longer at most, by chance, so that a crowd spreads out."""

_MOST_KEYS = 100
"""Of how many locks that the caller holds a look for a deadlock says that it holds them."""

CRASH_CHECK = 0.25
"""Seconds between two looks at a holder that is to lose the lock when its process is gone.

The first and the last waiter look so often. Each other waiter looks half as often as the next one
nearer to an end of the line, but every `RECHECK` seconds at least. So a crowd costs the server
hardly more than a few.
"""

_EXPIRY_SLACK = 0.005
_LATE = 0.1
_EACH = 0.001
"""Seconds to pause for each waiter of a connection that broke, so that they do not all ask again at
once.
"""
_LONGEST_SPREAD = 1.0
_SNAG = 0.25
"""Seconds within which a failed attempt to connect may be a passing one, such as a connection
killed half open.
"""


async def acquire(
    driver: Driver,
    request: Request,
    wait: float | None,
    patience: float | None = None,
    since: float | None = None,
) -> Won | Refused:
    """Acquire what nothing was sent for yet; see `LockWait.run`."""
    return await LockWait(driver, request, wait, patience, since).run()


async def give_up(driver: Driver, request: Request, *, in_bulk: bool = False) -> None:
    """Take back what was asked for, or won, for a caller interrupted before it could use it.

    `in_bulk`: whether it was asked for on a link for large replies, though it has no reads.
    """
    waiter = LockWait(driver, request, 0)
    waiter.sent, waiter.in_bulk = True, waiter.in_bulk or in_bulk
    await waiter.give_up()


def _wait(names: list[str], mode: str, who: str, where: str, **_: object) -> Wait:
    return Wait(tuple(names), mode.partition(":")[0], str(parse_who(who)), where)


class LockWait:
    """One acquire that was not granted at once; keeps what its questions must know.

    Args:
        driver: Where to ask.
        request: What is asked for.
        wait: For how many seconds to wait (0: not at all, None: for ever).
        patience: After so many seconds, and again now and then, it looks for a deadlock if its
            thread or task holds something. None: only when it is told to.
        since: When the wait began, on the monotonic clock, if that was before, and told as
            contention.
        own: What the log is to say after `patience` seconds of a hold of the caller's, for which it
            may wait for ever.
        link: On what to ask first; None: a new one.
        first: The reply, the error or the silence that came for the first question on `link`, and
            when that was sent; None: nothing was sent yet.
        ends: When it has to end, whatever the server does; None: as the blocks around the caller
            say. See `at_last`.

    Attributes:
        link: What it asks and listens on.
        in_bulk: Whether it asks on the link for large replies.
        sent: Whether anything was sent.
        queued: Whether it may stand in the queue.
        gave_up_in_vain: Whether it gave up, and the server did not answer.
        uncontended: Whether contention has not been told yet.
        own: What the log is to say of a hold of its caller's, for which it waits.
        wait_ms: For how long to stand in the queue when it asks first, as `store.acquire` takes it.
    """

    link: Link | None = None
    sent = queued = gave_up_in_vain = _is_silent = False
    uncontended = True
    _told = _heeded = False
    own = ""
    _why = "first"
    _rest = ""
    _failures = 0
    _ask_at = 0.0
    suspicious_at = long_at = _looks_from = inf
    _recheck = RECHECK
    _reads_much = _silent = _has_warned = False

    def __init__(
        self,
        driver: Driver,
        request: Request,
        wait: float | None,
        patience: float | None = None,
        since: float | None = None,
        own: str = "",
        link: Link | None = None,
        first: tuple[Any, float] | None = None,
        ends: float | None = None,
    ) -> None:
        self.driver = driver
        self.request = request
        self.token = request.token
        self.in_bulk = bool(request.reads)
        self.wait = wait
        if since is None:
            self.started = monotonic()
        else:
            self.started, self.uncontended = since, False
        if patience is not None and wait != 0:
            self.suspicious_at = self.long_at = self.started + patience
        self.wait_ms = store.milliseconds_of(wait)
        self.own = own
        self.link, self._first = link, first
        if first is not None:
            self.sent, self.started = True, first[1]
            self._silent = isinstance(first[0], Silence)
        self._at_last = at_last() if ends is None else ends
        """When it has to end, whatever the server does."""
        self._ends = self._at_last
        """When it has to end, unless a large reply is on its way."""
        if wait is not None:
            self._ends = min(self._ends, self.started + wait + driver.reply_timeout)

    async def run(self) -> Won | Refused:
        """Acquire. Returns `Refused` when another holder still had the lock at the end.

        Whatever goes wrong, cancellation included, leaves neither hold nor queue entry behind, or
        raises `LockBackendError` if Redis could not be told; then the lease ends what is there.

        Raises:
            DeadlockDetected: This wait was ended for others to go on.
            LockError: An operator cancelled it.
        """
        try:
            won: Won | Refused | None = None
            while won is None:
                try:
                    won = await self._go_on() if self._first else await self.ask()
                except LinkBroken as error:
                    await self.reconnect(error)
            self.close()  # here, so that an interrupt meanwhile takes back what was won
        except BaseException as error:
            await self.give_up()
            if isinstance(error, DeadlockDetected):
                await lock_events.tell_deadlock(
                    self.driver, self.request, error, wait=self.wait, waited=self.waited()
                )
            elif isinstance(error, LockBackendError) and not isinstance(error, ProtocolMismatch):
                await lock_events.tell_unavailable(
                    self.driver, self.request, error, wait=self.wait, waited=self.waited()
                )
            raise
        if isinstance(won, Refused) and self.wait != 0:
            await lock_events.tell_refused(
                self.driver,
                "timed_out",
                self.request,
                won,
                wait=self.wait,
                waited=self.waited(),
            )
        return won

    async def _go_on(self) -> Won | Refused | None:
        """Go on after the first question."""
        link, first, self._first = self.link, self._first, None
        assert link is not None and first is not None  # noqa: S101, PT018 - see `run`
        reply, sent = first
        if isinstance(reply, Silence):
            return await self._go_on_after(reply, link, sent)
        if isinstance(reply, ErrorReply) and (reply := link.refusal(reply)) is None:
            return None
        try:
            if isinstance(reply, BaseException):
                raise reply
            answer = store.acquired(self.request, reply, sent)
        except BaseException as error:
            self.request.break_off(error)
            raise
        finally:
            del first, reply  # else the circle would keep the frames of an error's caller
        return None if answer is None else await self._answered(link, answer, sent)

    async def _go_on_after(self, silence: Silence, link: Link, sent: float) -> Won | Refused | None:
        """Go on after a silent question that granted nothing."""
        heard, self.uncontended = silence.heard, not silence.contended
        if heard is None:
            return None
        if isinstance(heard, LinkBroken):
            self.queued = not isinstance(heard, Answered) and monotonic() - sent > _DEAD
            self.request.break_off(heard)
            raise heard
        self.queued = True
        at_ms = int(heard.split(b" ")[2])
        return await self.heard(link, heard, Refused(at_ms, 0, ""), sent)

    async def ask(self) -> Won | Refused | None:
        """Ask, and stand in the queue until it is time to ask again."""
        return await self._answered(*await self.in_time(self._question()))

    async def in_time(self, step: Coroutine[Any, Any, T]) -> T:
        """Return what a step returns that talks to the server.

        It has the time for one reply, or what is left of the call.
        """
        until = min(monotonic() + self.driver.reply_timeout, self._ends)
        return await in_time(self.driver, step, until, self._at_last)

    async def _question(self) -> tuple[Link, Won | Refused, float]:
        """Ask on the link, or a new one; return it, the reply, and when the question was sent."""
        request = self.request
        link = self.link
        if link is None:
            self.link = link = await self.driver.checkout(self.token)
        if link.needs_subscription:
            await link.subscribe(request.keys)
        sent = monotonic()
        # All questions of an attempt go over one connection, for only there they keep their order.
        asked = await self._bulk_of(link) if self.in_bulk else link
        first, self.sent = not self.sent, True
        wait_ms = self.wait_ms if first else self._wait_ms_left(sent)
        detection = self._detection() if sent >= self._look_at() else None
        reply, looked = await store.acquire(
            asked, request, wait_ms, sent, first=first, detection=detection
        )
        if looked is not None:
            self._note_look(looked)
        return link, reply, sent

    async def _answered(
        self, link: Link, reply: Won | Refused, sent: float
    ) -> Won | Refused | None:
        """Return what a question has got, or stand in the queue until it is time to ask again."""
        if isinstance(reply, Won):
            has_waited = self.queued or not self.uncontended
            return reply._replace(waited=self.waited()) if has_waited else reply
        if self._looks_from == inf:
            self._looks_from = monotonic() + _SOONEST_LOOK
        self.queued = self.wait != 0
        self._recheck = RECHECK
        if store.has_crash_release(reply.claim) and await self._released_after_crash(link):
            return None
        if reply.full_at:
            self.wait, self.queued = 0, False  # from here on as one that does not wait
        # Receivers may lock, too. If all who tell them had a link, none would be left for that.
        if self.wait == 0:
            self.close()
        elif await self._moves(link):
            return None
        await self._tell(reply)
        if self.wait == 0:
            return reply
        self._failures = 0
        return await self._stand(link, reply, sent)

    async def _bulk_of(self, link: Link) -> Link:
        """Return the link for large replies; `link` if this attempt asked without a reply on it."""
        return link if self._silent else await link.bulk()

    async def _moves(self, link: Link) -> bool:
        """Whether it waits on another link than this, from now on."""
        waiting_link = await self.in_time(self.driver.waiting_link(link, self.token))
        if waiting_link is link:
            return False
        # What it is granted while it changes, the next question tells.
        self.close()
        self.link = waiting_link
        return True

    async def _stand(self, link: Link, reply: Refused, sent: float) -> Won | Refused | None:
        """Stand in the queue until granted, out of time, or (None) it is time to ask again."""
        message = await link.receive(self.token, self.pause(reply))
        outcome = await self.heard(link, message, reply, sent)
        if (
            isinstance(outcome, Won)
            and outcome.waited < silent_questions.BRIEF
            and not self._reads_much  # on a subscribed connection
            and not self._heeded  # receivers want to know the holder, which only a reply tells
            and link.can_skip_replies()
        ):
            link.quick_keys = frozenset(self.request.keys)
        return outcome

    async def heard(
        self, link: Link, message: bytes | None, reply: Refused, sent: float
    ) -> Won | Refused | None:
        """Go on after `message`, or None, was heard after `reply` to what was sent at `sent`.

        See `_stand`.
        """
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
            if granted.fencing_token == store.LOOK:
                # Somebody found a deadlock that only we can end.
                self.suspicious_at, self._told, self._rest = monotonic(), True, ""
            elif granted.fencing_token == store.CANCELLED:
                raise store.cancelled(self.request)
            elif granted.fencing_token > 0:
                won = self.won_by(granted, reply, sent)
        if won is None:
            if self._left(monotonic()) <= 0:
                return await self.ask_to_give_up()
        else:
            won = won._replace(read=await self.in_time(self._read(link)))
        return won

    async def _read(self, link: Link) -> list[Any]:
        """Return the replies to what is to be read as soon as the locks are held."""
        request = self.request
        if not request.reads:
            return []
        bulk = await link.bulk()
        replies = await bulk.read(request.reads, request.keys)
        self._reads_much = bulk.large
        return replies

    async def _released_after_crash(self, link: Link) -> bool:
        """Whether a dead holder was in the way and has been removed.

        If not, this waiter's place says when to look again.
        """
        look = store.crash_release(link, self.request.keys, self.token)
        ended, near = await self.in_time(look)
        self._recheck = min(RECHECK, CRASH_CHECK * 2.0 ** min(near, 10))
        return ended > 0

    def waited(self) -> float:
        """Return the seconds since it began."""
        return monotonic() - self.started

    async def _tell(self, refused: Refused) -> None:
        """Tell once that there is contention, and once that the wait has become a long one."""
        driver, request, wait = self.driver, self.request, self.wait
        if self.uncontended:
            self.uncontended = False
            self._heeded = lock_events.observer.count(
                "contended", request.names, driver.description, 0.0
            )
            if self._heeded:
                await lock_events.tell_of_holder(driver, "contended", request, refused, wait=wait)
        elif monotonic() >= self.long_at:
            self.long_at = inf
            waited = self.waited()
            if self.own:
                logger.warning(
                    "Lock %r has been waited for for %.1f s, without an end; %s",
                    *(request.name, waited, self.own),
                )
            await lock_events.tell_refused(
                driver, "waiting", request, refused, wait=wait, waited=waited
            )

    def _look_at(self) -> float:
        """Return when to look for a deadlock next."""
        return max(self.suspicious_at, self._looks_from)

    def _wait_ms_left(self, now: float) -> int:
        return max(1, int(self._left(now) * 1000)) if self.wait else self.wait_ms

    def _left(self, now: float) -> float:
        return inf if self.wait is None else self.started + self.wait - now

    def pause(self, reply: Refused) -> float:
        """Return for how many seconds to listen, after `reply`.

        Then it is time to ask again, or to tell of a long wait.
        """
        holder_left = max(0.0, (reply.ends_ms - reply.at_ms) / 1000) + _EXPIRY_SLACK
        if not self._told and holds_nothing(self.token):
            # It closes no circle. The waiter that closes one finds it.
            self.suspicious_at = inf
        now = monotonic()
        recheck = min(self._recheck, max(SOONEST, self.request.lease_ms / 1000))
        left = min(self._left(now), holder_left, recheck, self._look_at() - now)
        self._ask_at = now + left
        return max(0.0, min(left, self.long_at - now))

    def won_by(self, granted: Granted, reply: Refused, sent: float) -> Won | None:
        """Return what was granted by a message heard just now; None if it is over.

        The message came after `reply` to what was sent at `sent`.
        """
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

    def _detection(self) -> Call:
        """Return the call that looks for a deadlock; the next look is later."""
        self.suspicious_at = monotonic() + LOOK_AGAIN
        why = "told" if self._told else self._why
        forsaken = " ".join([*self._own_by_hand(), unconfirmed()])
        return store.detect_call(
            self.request, caller(), forsaken, self._keys_held(), why, self._rest
        )

    def _own_by_hand(self) -> list[str]:
        """Return the tokens of holds of these very locks that the caller has acquired by hand.

        They make no circle of their own: the code that has them by now may well release them.
        """
        locks = self.request.keys[1:]
        return [
            lease.token
            for lease in list(session().held.open)
            if lease.is_by_hand and not set(locks).isdisjoint(lease.keys)
        ]

    def _note_look(self, looked: Looked) -> None:
        """Note when to look again. Raises DeadlockDetected if a deadlock was found."""
        if looked.circle is None:
            self._rest = looked.rest or ""
            if looked.rest is None:
                self._told, self._why = False, "again"
            spread = _SPREAD * random.random()  # noqa: S311 - no secret
            self.suspicious_at = monotonic() + looked.pause * (1 + spread)
            return
        circle = tuple(_wait(**member) for member in looked.circle)
        msg = (
            f"Deadlock: this wait for lock {self.request.name!r} was ended so that the others can "
            "go on"
        )
        raise DeadlockDetected(msg, circle)

    def _keys_held(self) -> list[bytes] | None:
        """Return the keys of the locks that the caller holds in the partition that it asks.

        None: they are too many, or not known.
        """
        here = session()
        if not self.token.startswith(f"{here.name}."):
            return None
        index = self.request.keys[0]
        leases = [lease for lease in list(here.held.open) if lease.keys[0] == index]
        keys = [key for lease in leases for key in lease.keys[1:]]
        return keys if len(keys) <= _MOST_KEYS else None

    async def give_up(self) -> None:
        """Take back what was asked for, if anything was, and give the link back.

        Doing it again does nothing.

        What cannot be taken back ends with its lease, or with its place's time.
        """
        try:
            if self.sent:
                await self._give_up()
                self.sent = False  # not if that is interrupted: it is done again
        except RecursionError:
            self._leave_to_background()  # which has a stack of its own
            raise
        finally:
            self.close()

    async def _give_up(self) -> None:
        with suppress(LockBackendError, LinkBroken):
            if not (self.gave_up_in_vain or self._is_silent):  # it has cost its time
                with suppress(LockLost):  # an upgrade: it gave up, and has nothing to go back to
                    await self.driver.finish(self.ask_to_give_up())
                return
        self._leave_to_background()

    def _leave_to_background(self) -> None:
        self.disconnect()
        note_unconfirmed(self.token)
        if not self.request.reused and self.driver.background is not None:
            request = self.request
            until = monotonic() + request.lease_ms / 1000
            self.driver.background.add(lambda link: store.give_up(link, request), until)

    async def ask_to_give_up(self) -> Refused:
        """Ask the server to end this wait, on a new link if need be; return the holder of the lock.

        Raises:
            LockBackendError: The server did not answer in the time of the call, or refused.
        """
        now = monotonic()
        # What it leaves behind keeps others waiting until a lease ends.
        until, at_least = now + self.request.lease_ms / 1000, now + _SNAG
        if self.link is not None:
            try:
                return await self.in_time(self._ask_to_give_up(self.link))
            except LinkBroken:
                self.close(broken=True)
        try:
            refused, _ = await persist(
                *(self.driver, self._ask_to_give_up, until),
                unreachable_until=at_least,
                lock=self.request.name,
                within=min(now + self.driver.reply_timeout, self._ends) - monotonic(),
                ends=self._at_last,
            )
        except LockBackendError:
            self.gave_up_in_vain = True
            raise
        return refused

    async def _ask_to_give_up(self, link: Link) -> Refused:
        asked = await self._bulk_of(link) if self.in_bulk else link
        return await store.give_up(asked, self.request)

    def disconnect(self) -> None:
        """Close the link, so that a place that we could not give up is skipped.

        Then no process hears of its grant.
        """
        if self.link is not None:
            self.link.disconnect()

    async def reconnect(self, error: LinkBroken) -> None:
        """Get ready for another try, or raise `LockBackendError`."""
        waiters = self.link.waiters if self.link else 1
        self.close(broken=not isinstance(error, OutOfTime))
        self._silent = False
        self._failures += 1
        self._look_anew()
        left = self._left(monotonic())
        in_time = left > 0
        # Nothing listens there: say so at once, unless we had a place in the queue, which
        # means that the server was there and is likely to come back.
        away = isinstance(error, Away)
        snag = not away and (
            monotonic() - self.started < CUT_SHORT
            if isinstance(error, CutShort)
            else self._failures < TRIES and monotonic() - self.started < _SNAG
        )
        reachable = away or not isinstance(error, Unreachable)
        pause = None if reachable else self.driver.pause_after(self._failures)
        # What was silent may cut connections short, or refuse them, as it comes back.
        endless = self.wait is None and (isinstance(error, (Silent, Away)) or self._has_warned)
        tries_on = in_time and (self.queued or pause is not None or endless)
        hopeless = isinstance(error, Unreachable) and not (snag or tries_on)
        if hopeless or not (in_time or self._failures < TRIES) or monotonic() >= self._ends:
            self._is_silent = True
            note_silence()
            note_failed_call(self.driver, error)
            raise LockBackendError(self._why_not(error)) from error
        if endless:
            self._warn_of_silence(error)
        if pause and in_time:
            await self.driver.sleep(min(pause, left))
            return
        limit = longest_pause(self._failures)
        longest = min(max(limit, self._failures * _EACH * (waiters - 1)), _LONGEST_SPREAD)
        if longest > 0:
            pause = random.uniform(limit / 2, longest)  # noqa: S311 - jitter, no secret
            left = left if in_time else max(0.0, self._ends - monotonic())
            await self.driver.sleep(min(pause, left))

    def _why_not(self, error: LinkBroken) -> str:
        """Return what says which server could not be asked, and for how long.

        If the server was silent, it says what changes that, too.
        """
        name, where, why = self.request.name, self.driver.description, str(error)
        if where not in why:
            why = f"{where}: {why}"
        silence = monotonic() >= self._ends or isinstance(error, Silent)
        setting = "; see REDIS_LOCKS['REPLY_TIMEOUT']" if silence else ""
        return f"Lock {name!r} could not be asked for in {self.waited():.1f} s: {why}{setting}"

    def _warn_of_silence(self, error: LinkBroken) -> None:
        """Say once that a wait without an end waits for the server."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "Lock %r is waited for without an end (wait=None), and the server says nothing: %s",
                *(self.request.name, error),
            )

    def _look_anew(self) -> None:
        """Look for a deadlock as if for the first time.

        While nobody heard us, others took us for dead.
        """
        if self._why == "again":
            self._why, self._rest = "first", ""
            self.suspicious_at = min(self.suspicious_at, monotonic() + SOONEST)

    def close(self, *, broken: bool = False) -> None:
        """Give the link back."""
        link, self.link = self.link, None
        if link is not None:
            self.driver.checkin(link, self.token)
        if broken:
            self.driver.drop_idle()
