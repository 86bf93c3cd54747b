"""Renewal: one background thread per process and server extends leases of all threads and tasks.

A lease is renewed a third of its length after the last time, or a little earlier along with
another. A failed try is repeated every tenth until the lease's own deadline on the monotonic clock;
then the hold is lost, and so it is when Redis says that the token holds nothing. A renewer keeps
only weak references: the lease of a hold that was dropped without release runs out. So does the
lease of a task whose event loop has stood still for `max_hold` seconds, or is closed: see
`Heartbeat`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from time import monotonic
from typing import Any, ClassVar, Final, Protocol

from redis_locks.drivers.base import Call, Driver, LinkBroken, run_blocking
from redis_locks.drivers.breaker import insisting
from redis_locks.drivers.listener_thread import ListenerThread, Pin, Subscription
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import lock_events, replication, store
from redis_locks.protocol.lease import (
    FORCE_RELEASED,
    NOT_KNOWN,
    YOUNG,
    Lease,
    Renewer,
    Runner,
    State,
    tell_end,
)
from redis_locks.scripts import Script

logger = logging.getLogger("redis_locks")

LEASES_HELD: Final = 30
"""How many leases long the holds of an event loop that stands still are renewed, if `max_hold` does
not say.
"""

EARLY: Final = 1 / 30
"""The part of its length by which a lease is renewed early, along with one that is due: each look
goes through all leases.
"""

AT_ONCE: Final = 200
"""How many leases are renewed in a round trip. In a process or on a server that is slow, the first
ones do not wait for all.
"""

ERROR_PAUSE: Final = 0.1
"""Seconds to pause after an unforeseen error: the other holds still need their renewal."""


class Registry:
    """The leases to renew, and which of them are due.

    `on_lost` is called when one is found lost.
    """

    IDLE: ClassVar = 5.0
    """Seconds the renewal thread stays when there is nothing to renew."""

    def __init__(self, on_lost: Callable[[Lease], object]) -> None:
        self.leases: dict[str, weakref.ref[Lease]] = {}
        """By the token with which each was asked for; they are not kept alive."""
        self._on_lost = on_lost
        self.oldest = inf
        """Since when the oldest of them is held, as of the last look."""

    def discard(self, lease: Lease) -> bool:
        """Forget a lease; return whether it was there."""
        return self.leases.pop(lease.token, None) is not None

    def take_due(self) -> tuple[list[Lease], float]:
        """Return the leases to renew now, and in how many seconds to look again."""
        now = monotonic()
        soon: list[Lease] = []
        next_due = now + self.IDLE
        oldest = inf
        for token, reference in self.leases.copy().items():
            lease = reference()
            if lease is None or lease.state is State.ENDED:
                self.leases.pop(token, None)
            elif lease.is_over():
                self._lose(lease)
            else:
                oldest = min(oldest, lease.since)
                next_due = min(next_due, max(lease.due, now))
                if lease.is_due(now, EARLY):
                    soon.append(lease)
        self.oldest = oldest
        if next_due > now:
            return [], next_due - now
        return [lease for lease in soon if self._renews(lease)], 0.0

    @staticmethod
    def _renews(lease: Lease) -> bool:
        """Whether to renew a lease now."""
        heartbeat = lease.renewer.heartbeat
        if heartbeat is not None and lease.renews and heartbeat.has_stopped(lease):
            lease.postpone()  # it may turn again before the lease ends
            return False
        return True

    def revoke(self, token: str) -> None:
        """Note that an operator ended the hold of `token`."""
        lease = self._find(token)
        if lease is not None and lease.state is not State.ENDED:
            if not lease.is_over():
                lease.lose(FORCE_RELEASED)
            self._lose(lease)

    def _find(self, token: str) -> Lease | None:
        reference = self.leases.get(token)
        if reference is not None:
            return reference()
        leases = (each() for each in self.leases.copy().values())
        return next((lease for lease in leases if lease and lease.token == token), None)

    def renew_all(self) -> None:
        """Let all leases be due: to be renewed, or at least looked at."""
        for reference in self.leases.copy().values():
            lease = reference()
            if lease is not None:
                lease.hurry()

    def _lose(self, lease: Lease) -> None:
        if self.discard(lease):
            on_lost = lease.on_lost  # once: its block may end meanwhile
            if on_lost is not None:
                try:
                    on_lost()
                except Exception:  # this thread serves all other holds, too
                    logger.exception("The block of lock %r was not told of its loss", lease.name)
            self._on_lost(lease)

    def __len__(self) -> int:
        return len(self.leases)


async def renew(driver: Driver, leases: list[Lease]) -> None:
    """Renew leases, those that end soonest first; note in each how it went.

    Raises nothing about Redis.

    It makes a round trip for each script, and for each `AT_ONCE` of many leases. If the server does
    not answer one, the others are for later: who waits for its timeout each time sees no loss
    meanwhile.
    """
    parts = _parts(leases)
    for script, alike in parts:
        if not await _renew_alike(driver, script, alike):
            for _, others in parts:
                for lease, _ in others:
                    lease.miss()


def _parts(leases: list[Lease]) -> Iterator[tuple[Script, list[tuple[Lease, Call]]]]:
    soonest = sorted(leases, key=lambda lease: lease.deadline)
    for first in range(0, len(soonest), AT_ONCE):
        by_script: dict[Script, list[tuple[Lease, Call]]] = {}
        for lease in soonest[first : first + AT_ONCE]:
            if lease.state is State.HELD:
                script, call = lease.extension
                by_script.setdefault(script, []).append((lease, call))
        yield from by_script.items()


async def _renew_alike(driver: Driver, script: Script, alike: list[tuple[Lease, Call]]) -> bool:
    """Renew leases in one round trip, and return whether the server answered."""
    answered = True
    leases = [lease for lease, _ in alike]
    sent, known = monotonic(), [lease.deadline for lease in leases]
    calls = [call for _, call in alike]
    for lease in leases:
        lease.miss()  # until the reply: the lease may end before that
    try:
        replies = await _call_many(driver, script, calls, leases)
    except LinkBroken:
        driver.drop_idle()
        sent, known = monotonic(), [lease.deadline for lease in leases]
        try:
            # The link may have died long ago, while nobody used it.
            replies = await _call_many(driver, script, calls, leases)
        except (LinkBroken, LockBackendError) as error:
            driver.drop_idle()
            answered, replies = False, [error] * len(leases)
    except LockBackendError as error:
        answered, replies = False, [error] * len(leases)
    failures = [
        (lease, failure)
        for (lease, (_, argv)), reply, ends in zip(alike, replies, known, strict=True)
        if (failure := note(lease, reply, sent, str(argv[0]), ends)) is not None
    ]
    _log_failures(failures)
    return answered


_failing: weakref.WeakSet[Lease] = weakref.WeakSet()
"""The leases whose latest renewal failed, of which the log knows."""


def _log_failures(failures: Sequence[tuple[Lease, Exception]]) -> None:
    """Write one line about the leases whose renewal has failed.

    A lease counts at its first failure since a renewal that went well.
    """
    fresh = [(lease, error) for lease, error in failures if lease not in _failing]
    if fresh:
        _failing.update(lease for lease, _ in fresh)
        first, error = fresh[0]
        others = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
        logger.warning(
            "Renewal of lock %r%s failed; it ends in %.1f s unless a later try gets through: %s",
            *(first.name, others, first.deadline - monotonic(), error),
        )


async def _call_many(
    driver: Driver, script: Script, calls: list[Call], leases: list[Lease]
) -> list[Any]:
    link = await driver.checkout()
    try:
        replies = await link.call_many(script, calls)
        return await replication.acknowledged(driver, link, leases, replies)
    finally:
        driver.checkin(link)


def note(
    lease: Lease, reply: object, sent: float, token: str | None = None, known: float = inf
) -> LinkBroken | LockBackendError | None:
    """Note how a renewal went, and return what it failed by, if it did.

    It was sent with `token` (None: that of the lease), when the lease was `known` to end then.
    """
    if lease.state is not State.HELD:
        return None  # the release overtook us
    try:
        if isinstance(reply, Exception):
            raise reply
        left = store.extend_reply(reply, token or lease.token)
    except (LinkBroken, LockBackendError) as error:
        lease.miss()
        return error
    if _failing:
        _failing.discard(lease)
    if left is None and lease.may_be_upgrading(sent):
        lease.postpone()
    elif left is None:
        if not lease.is_over():
            lease.lose(NOT_KNOWN)
    else:
        # Its deadline may have passed meanwhile. If nobody has noticed, it may go on: the server
        # says that it never ended.
        lease.renew(sent + left / 1000, known)
    return None


class Heartbeat:
    """Whether an event loop still turns.

    When one of its holds is to be renewed, the loop is asked for a sign of life. A loop that
    computes for longer than a lease keeps its locks by that, and one that hangs for good does not.
    """

    def __init__(self, driver: Driver, max_hold: float | None) -> None:
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._max_hold = max_hold
        self._asked_at = inf
        """Since when it owes an answer; inf: it owes none."""
        self._telling: set[asyncio.Task[None]] = set()

    def has_stopped(self, lease: Lease) -> bool:
        """Whether the loop has stood still for too long for this hold of its to be renewed.

        Called by any thread.
        """
        if self._asked_at == inf:
            self._asked_at = monotonic()
            if not self._call(self._answer):
                self._asked_at = -inf
        most = lease.max_hold or self._max_hold or LEASES_HELD * lease.lease_ms / 1000
        return monotonic() - self._asked_at >= most

    def _answer(self) -> None:
        self._asked_at = inf

    def tell_lost(self, lease: Lease) -> bool:
        """Tell in the loop that a hold is lost; False if the loop is closed.

        A receiver may take long.
        """
        return self._call(self._begin_to_tell, lease)

    def _begin_to_tell(self, lease: Lease) -> None:
        task = self._loop.create_task(tell_end(self._driver, lease), name="redis_locks-lost")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _call(self, callback: Callable[..., object], *arguments: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # it is closed
            return False
        return True


class SubscriptionDriver(Driver, Protocol):
    """A driver with connections that one thread uses at a time."""

    def open_subscription(self) -> Subscription:
        """Return a connection that receives which holds of this process an operator has ended."""


class ThreadRenewer:
    """Renews the holds of all threads and tasks of this process from one daemon thread."""

    heartbeat = None
    discard: Callable[[Lease], object]
    """Stops renewing a lease."""

    def __init__(self, driver: SubscriptionDriver) -> None:
        self._driver = driver
        self.reset()
        _THREAD_RENEWERS.add(self)

    def reset(self) -> None:
        """Start empty; after a fork the holds and the thread are the parent's."""
        self._registry = Registry(self._tell_lost)
        self.discard = self._registry.discard
        self._listener_thread = ListenerThread(
            self._driver.open_subscription, self.revoke, self._renew_all
        )
        self._added = False
        self._changed = threading.Condition()
        self._running = False
        # When the thread looks next at the latest; infinite when there is none.
        self._wakes_at = inf

    def add(self, lease: Lease) -> None:
        """Renew `lease`, or watch it end, until it is discarded, lost or garbage."""
        self._registry.leases[lease.token] = weakref.ref(lease)
        self._added = True
        # Most leases come after the thread looks anyway: no mutex, no wake-up for them.
        wakes_at = self._wakes_at
        if lease.due < wakes_at:
            self._wake_by(lease.due)
        if lease.since + YOUNG < wakes_at and not self._listener_thread.is_open:
            self._wake_by(lease.since + YOUNG)

    def _wake_by(self, by: float) -> None:
        """Have the thread look at its leases then, at the latest."""
        with self._changed:
            if not self._running:
                threading.Thread(target=self._run, name="redis_locks-renewal", daemon=True).start()
                self._running = True  # only now: without a thread, the next lease tries again
            elif by < self._wakes_at:
                self._wakes_at = by
                self._changed.notify()

    def revoke(self, token: str) -> None:
        """Note that an operator ended the hold of `token`, if it is one of this process."""
        self._registry.revoke(token)

    async def listening(self, run: Runner | None = None) -> AbstractContextManager[object]:
        """Listen until everything that was added in the block has ended; see `Renewer`.

        Blocks for two round trips, or has them made by `run`.
        """
        with self._changed:  # under which the thread closes it, unless there are pins
            pin = Pin(self._listener_thread)
        try:
            listen = partial(self._listen, monotonic())
            if run is None:
                listen()
            else:
                await run(listen)
        except BaseException:
            pin.let_go()
            raise
        return pin

    def _listen(self, since: float) -> None:
        try:
            self._listener_thread.open(since)
        except LinkBroken as error:
            raise LockBackendError(str(error)) from error

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._wakes_at <= monotonic():
                    # A lease added from here on waits for the mutex; one added before is seen.
                    self._wakes_at = inf
                due, pause = self._registry.take_due()
                listen, pause = self._listening_due(pause)
                if not (due or listen):
                    # Woken early, for a lease that may be gone already, it keeps that time:
                    # the next lease would only wake it again.
                    self._wakes_at = min(self._wakes_at, monotonic() + pause)
                    if not self._changed.wait(self._wakes_at - monotonic()):
                        self._wakes_at = inf
                        if pause >= self._registry.IDLE and self._is_idle():
                            self._running = False
                            self._listener_thread.close()
                            return
                    continue
            if listen:
                self._listener_thread.try_to_open()
                self._registry.renew_all()  # an operator may have ended one before
            try:
                run_blocking(insisting(renew(self._driver, due)))
            except Exception:
                logger.exception("Renewal failed; trying again")
                time.sleep(ERROR_PAUSE)
            del due  # else a finished hold would live until the next turn

    def _is_idle(self) -> bool:
        """Whether there is nothing to renew, and was not since it was asked before."""
        added, self._added = self._added, False
        return not (added or len(self._registry))

    def _listening_due(self, pause: float) -> tuple[bool, float]:
        """Return whether to listen from now on for force-released holds, and when to look again.

        Most holds are short and no operator ends them: they are worth no connection.
        """
        now, oldest = monotonic(), self._registry.oldest
        if self._listener_thread.is_open:
            return False, pause
        if oldest + YOUNG <= now:
            left = self._listener_thread.retry_at - now
            return left <= 0, min(pause, max(left, 0.0))
        # As long as locks are acquired it looks again, so that no acquire has to wake it.
        added, self._added = self._added, False
        return False, min(pause, max(oldest + YOUNG - now, 0.0), YOUNG if added else pause)

    def _renew_all(self) -> None:
        """Renew all: an operator may have ended a hold meanwhile."""
        with self._changed:
            self._registry.renew_all()
            self._wakes_at = 0.0
            self._changed.notify()

    def _tell_lost(self, lease: Lease) -> None:
        # Whoever listens may take long, and other holds need their renewal meanwhile.
        if not lock_events.observer.listens("lost"):
            return
        heartbeat = lease.renewer.heartbeat
        if heartbeat is not None and heartbeat.tell_lost(lease):
            return
        try:
            threading.Thread(
                target=lambda: run_blocking(tell_end(self._driver, lease)),
                name="redis_locks-lost",
                daemon=True,
            ).start()
        except RuntimeError:  # no thread to be had; the end of its block may tell
            logger.exception("Cannot tell that lock %r is lost", lease.name)


class LoopRenewer:
    """Has the holds of one event loop renewed by the thread that renews those of all threads.

    Args:
        renewer: That of the threads.
        driver: That of the loop.
        max_hold: Seconds for which its holds are renewed while the loop stands still; None: 30
            leases.
    """

    def __init__(self, renewer: Renewer, driver: Driver, max_hold: float | None) -> None:
        self.add, self.discard, self.revoke = renewer.add, renewer.discard, renewer.revoke
        self.heartbeat = Heartbeat(driver, max_hold)
        self._renewer = renewer

    async def listening(
        self, run: Runner | None = asyncio.to_thread
    ) -> AbstractContextManager[object]:
        """Listen until everything that was added in the block has ended; see `Renewer`."""
        return await self._renewer.listening(run)


_THREAD_RENEWERS: weakref.WeakSet[ThreadRenewer] = weakref.WeakSet()


def _after_fork() -> None:
    for renewer in _THREAD_RENEWERS:
        renewer.reset()


os.register_at_fork(after_in_child=_after_fork)
