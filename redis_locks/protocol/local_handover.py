"""Local hand-over: threads or tasks of one process pass a lock on without a round trip (LOCAL_BATCH).

Waiters for the same lock with the same options stand in a line. The first one, the leader, asks Redis. When the
leader releases soon, the hold passes to the next in line, and Redis keeps the leader's token. The number of such
hand-overs in a row is bounded, and so is their time, so that other processes get their turn. After that time a
waiter joins the queue in Redis, and a holder tells Redis its own token (see `Lease.restates`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any, Final

from redis_locks.drivers.base import Driver
from redis_locks.drivers.wake_events import TaskWakeEvent, ThreadWakeEvent, WakeEvent
from redis_locks.protocol import acquire as redis
from redis_locks.protocol import lock_events, store
from redis_locks.protocol.lease import NOT_KNOWN, YOUNG, Lease, State
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Refused, Request, Won
from redis_locks.values.claims import parse_who

ENOUGH: Final = 0.9
"""Share of its lease that a hold must have left to pass: the next holder counts on a whole one."""

SOONEST_LOOK: Final = 0.25
"""Shortest DEADLOCK_TIMEOUT, in seconds, with which holds pass on: Redis learns late which waiter holds."""


class _Place:
    """A thread or task in a line."""

    __slots__ = ("asks", "before", "request", "wake_event")

    def __init__(self, driver: Driver, request: Request) -> None:
        self.request = request
        self.wake_event: WakeEvent = TaskWakeEvent() if driver.suspends else ThreadWakeEvent()
        self.before: Lease | None = None
        """The lease of the hold that was handed to it."""
        self.asks = False
        """Whether it is its turn to ask Redis."""


Got = tuple[Won | Refused, "Line | None", Lease | None]
"""What became of an acquire, the line in which the hold passes on, and the lease that it took over."""

_Key = tuple[Driver, bytes, int, bool]


class Line:
    """The waiters of this process for one lock, behind the leader, which asks Redis or holds.

    It exists as long as there is a leader. Whatever is interrupted half-way, no waiter stands in it for
    longer than `YOUNG` seconds; the waiter that comes out then closes it.
    """

    __slots__ = ("_closed", "_key", "_lead", "_most", "_places", "_until", "_who")

    def __init__(self, key: _Key, request: Request) -> None:
        self._key = key
        self._closed = False
        self._places: list[_Place] = []
        self._lead = request.token
        self._who = request.who
        self._until = inf
        self._most = 0

    def _led_by(self, request: Request) -> None:
        self._lead, self._who = request.token, request.who

    def join(self, place: _Place) -> bool:
        """Stand at the end; False if the line is closed."""
        with _mutex:
            if monotonic() >= self._until:
                self.close()
            if not self._closed:
                self._places.append(place)
            return not self._closed

    @property
    def leader(self) -> str:
        """The party that asks or holds, as text for people."""
        return str(parse_who(self._who) or "")

    def begin(self, won: Won, request: Request, most: int) -> None:
        """Note that Redis granted the lock: from now on it may pass `most` times."""
        self._until = won.deadline - request.lease_ms / 1000 + YOUNG
        self._most = won.fencing_token + most

    def leave(self, lease: Lease, *, lost: bool = False) -> bool:
        """End a hold. True: it has passed to the next in line, and Redis is not to be told."""
        with _mutex:
            heir = lease.heir
            if heir is not None and heir.before is lease:
                lease.hand_over()  # an interrupt came between
            if lease.state is State.HANDED_OVER:
                return True
            if not self._places:
                # Nearly always; `end` would come to the same.
                if not self._closed and self._lead == lease.request.token:
                    _lines.pop(self._key, None)  # first: no closed line may stay there
                    self._closed = True
                return False
            if not lost and self._lead == lease.request.token and self._passes(lease):
                place = self._places.pop(0)
                lease.promise(place)
                self._led_by(place.request)
                place.before = lease
                lease.hand_over()
                return True
            self.end(lease.request.token)
            return False

    def _passes(self, lease: Lease) -> bool:
        now, whole = monotonic(), lease.lease_ms / 1000
        return (
            now < self._until
            and lease.fencing_token < self._most
            and lease.mode == "exclusive"
            and ENOUGH * whole <= lease.deadline - now <= whole
            and lease.decides()
        )

    def end(self, asker: str) -> None:
        """Let the next in line ask Redis, if `asker` is the leader, which neither asks nor holds any more."""
        with _mutex:
            if self._lead != asker:
                return
            if not self._places:
                self.close()
                return
            place = self._places.pop(0)
            self._led_by(place.request)
            self._until = inf
            place.asks = True
            place.wake_event.set()

    def close(self) -> None:
        """Let all waiters out, and no other in."""
        with _mutex:
            if not self._closed:
                _lines.pop(self._key, None)
                self._closed = True
                for place in self._places:
                    place.wake_event.set()
                self._places.clear()

    def come_out(self, place: _Place) -> None:
        """End the time in line; what was handed to the place, if it was its turn, stays there."""
        with _mutex:
            if place.before is None and not place.asks:
                # It joins the queue in Redis, where the waiters behind it must not overtake it.
                self.close()

    def disconnect(self, place: _Place) -> None:
        """Take an interrupted place out; if it was its turn, it is the next one's."""
        with _mutex:
            with suppress(ValueError):
                self._places.remove(place)
            self.end(place.request.token)


def acquire(
    driver: Driver,
    request: Request,
    wait: float | None,
    patience: float | None,
    renews: bool,  # noqa: FBT001 - by place, as all of them: this is in each acquire's way
    most: int,
) -> Coroutine[Any, Any, Got]:
    """Acquire as `acquire.acquire` does, or get the hold of another thread or task of this process.

    A hold passes only to a waiter for the same lock with the same lease and renewal, `most` times
    in a row. Interrupted, it leaves nothing behind, as `acquire.acquire` does.
    """
    # Not async itself: a coroutine more would cost most acquires, which find no line, more than the rest.
    if patience is not None and patience < SOONEST_LOOK:
        return _ask(None, driver, request, wait, patience, most)
    key = (driver, request.keys[1], request.lease_ms, renews)
    fresh = Line(key, request)
    line = _lines.setdefault(key, fresh)
    if line is fresh:
        return _ask(line, driver, request, wait, patience, most)
    return _stand(line, _Place(driver, request), driver, wait, patience, renews, most)


async def _ask(
    line: Line | None,
    driver: Driver,
    request: Request,
    wait: float | None,
    patience: float | None,
    most: int,
    since: float | None = None,
) -> Got:
    """Ask Redis, as the leader of the line, or without a line."""
    outcome: Won | Refused | None = None
    try:
        outcome = await redis.acquire(driver, request, wait, patience, since)
        if isinstance(outcome, Won):
            if line is not None:
                line.begin(outcome, request, most)
            return outcome, line, None
    except BaseException:
        if line is not None:
            line.end(request.token)
        if isinstance(outcome, Won):
            await redis.take_back(driver, request)
        raise
    if line is not None:
        line.end(request.token)
    return outcome, None, None


async def _stand(
    line: Line,
    place: _Place,
    driver: Driver,
    wait: float | None,
    patience: float | None,
    renews: bool,  # noqa: FBT001 - as above
    most: int,
) -> Got:
    """Stand in line until the hold is handed over, or until it is time to ask Redis."""
    since, request = monotonic(), place.request
    try:
        joined = line.join(place)
        if joined:
            if lock_events.observer.count("contended", request.names, driver.description, 0.0):
                await lock_events.tell(driver, "contended", request, wait=wait, holder=line.leader)
            await place.wake_event.wait(YOUNG if wait is None else min(wait, YOUNG))
            line.come_out(place)
            before = place.before
            if (
                before is not None
                and before.state is not State.LOST
                and monotonic() < before.deadline
            ):
                waited = monotonic() - since
                return Won(before.fencing_token + 1, before.deadline, [], waited), line, before
    except BaseException:
        line.disconnect(place)
        if place.before is not None:
            await redis.take_back(driver, replace(request, token=place.before.token))
        raise
    if not joined:
        return await acquire(driver, request, wait, patience, renews, most)
    ahead = line if place.asks or place.before is not None else None
    return await _ask(ahead, driver, request, wait, patience, most, since)


async def restate(driver: Driver, lease: Lease) -> bool:
    """Have Redis know a hold that passed to us as ours, if it does not yet. Return False if it is lost.

    Raises LockBackendError.
    """
    own, token = lease.own, lease.token
    if own is None or not lease.restates():
        return True
    if not lease.renews:
        own = replace(own, lease_ms=0)  # it ends when it would have
    sent = monotonic()
    adopted, _ = await persist(
        driver,
        lambda link: store.adopt(link, own, token, lease.fencing_token),
        lease.deadline,
        lock=lease.name,
    )
    if adopted is None:
        lease.lose(NOT_KNOWN)
    if adopted is None or lease.is_over():
        return False
    lease.restated()
    lease.renew(sent + adopted.left_ms / 1000)
    lease.renewer.add(lease)
    return True


_lines: dict[_Key, Line] = {}

# Guards a few instructions; reentrant, for a signal's handler may come in between.
_mutex = threading.RLock()


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread of the parent may have had it
    _mutex = threading.RLock()
    _lines.clear()  # the waiters in them are the parent's


os.register_at_fork(after_in_child=_after_fork)
