"""How a hold ends off the usual way, which is `Lease.ask_to_end`.

Redis is asked again, and by any token by which it may know the hold.
"""

from __future__ import annotations

import logging
from asyncio import current_task
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from threading import get_ident
from time import monotonic
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.drivers.base import Driver, Link
from redis_locks.exceptions import LockBackendError, LockError, NotReplicated, ProtocolMismatch
from redis_locks.protocol import store
from redis_locks.protocol.callers import note_unconfirmed
from redis_locks.protocol.lease import UNHEARD, Answer, Lease
from redis_locks.protocol.retry import persist
from redis_locks.values.identity import closing_token, cooldown_of, process, written

logger = logging.getLogger("redis_locks")

T = TypeVar("T")

Begun = Answer | LockBackendError | Link | None
"""What the usual way to end a hold came to: the answer, or the link on which it is to come; None:
nothing was asked.
"""


def here_of(driver: Driver) -> Any:
    """Return the running task, or this thread, as what releases on `driver`."""
    return (current_task() if driver.suspends else None) or get_ident()


def stop_releasing(releaser: dict[Literal["first"], Any], here: Any) -> None:
    """Let others release, if this thread or task was the one that does."""
    if releaser.get("first") == here:
        releaser.clear()


class Endable(Protocol):
    """A hold, as far as its end goes."""

    lease: Lease
    upgrade_token: str | None

    @property
    def parts(self) -> Sequence[Endable]:
        """It returns the holds of one partition each; most often itself."""

    async def end(self, driver: Driver, error: BaseException | Unset = UNSET) -> None:
        """Release. The `error`, if given, wins over ours."""


async def end_and_raise(driver: Driver, hold: Endable, interrupt: BaseException) -> NoReturn:
    """Go on with the end of a hold that was broken off, and then with what did that."""
    try:
        with suppress(LockError):
            await driver.finish(hold.end(driver))
        raise interrupt
    finally:
        del interrupt  # else the circle would keep its caller's frames


def end_in_background(
    driver: Driver, lease: Lease, end: Callable[[Link], Coroutine[Any, Any, object]] | None
) -> None:
    """Have the background end what an interrupt left behind.

    It does so by `end`. If that is None, it takes back what was asked for.
    """
    until = lease.deadline
    if end is None:
        # It may wait in the queue, or hold the lock without having heard of it.
        lease.request.break_off(KeyboardInterrupt())
        end, until = (
            partial(store.give_up, request=lease.request),
            monotonic() + lease.lease_ms / 1000,
        )
    ends = driver.background is not None and driver.background.add(end, until)
    outcome = "the background releases the lock" if ends else "the lock ends with its lease"
    logger.warning(
        "The block of lock %r was interrupted as it began or ended; %s", lease.name, outcome
    )


def may_proceed(error: LockBackendError) -> bool:
    """Whether `error` says that the server could not be asked. Some say what it answered."""
    return not isinstance(error, (NotReplicated, ProtocolMismatch))


async def by_any_token(
    lease: Lease, ask: Callable[[str], Awaitable[T | None]], *tried: str
) -> T | None:
    """Return what `ask` answers for the first token by which Redis knows the hold, or None."""
    answer: T | None = None
    known = list(tried)
    # Anew each time: the token may have changed while we asked for it.
    while answer is None and (token := lease.other_token(known)) is not None:
        known.append(token)
        answer = await ask(token)
    return answer


async def end(link: Link, lease: Lease, *, stays_closed: bool) -> bool:
    """Run the script that ends the hold; False if no token of it holds the lock.

    `stays_closed`: whether its locks stay closed until `at_least` is over, if they have that.
    """
    token = lease.token
    end_of = _close if stays_closed and lease.plan.terms.at_least_ms else _release
    if await end_of(link, lease, token):
        return True

    async def release(token: str) -> bool | None:
        return await end_of(link, lease, token) or None

    return bool(await by_any_token(lease, release, token))


async def _release(link: Link, lease: Lease, token: str) -> bool:
    return await store.release(link, lease.keys, token)


async def _close(link: Link, lease: Lease, token: str) -> bool:
    terms = lease.plan.terms
    who = written(process.pid, lease.session.unit, cooldown_of(terms.label), None)
    return await store.close(link, lease.keys, token, closing_token(token), terms.at_least_ms, who)


async def end_for_good(
    driver: Driver,
    lease: Lease,
    end_on: Callable[[Link], Coroutine[Any, Any, bool]],
    answer: Answer | LockBackendError,
    *,
    repeated: bool,
    was_lost: bool,
    last: float,
) -> bool:
    """End a hold by `end_on`, however often connections break.

    Return whether it was held until then. At `last` the caller waits no longer, and the background
    goes on. If the lock proceeds without its server, an end that is not known is logged, and counts
    as one.

    `answer`: what the usual way has come to. The server may have refused half-way; then it is not
    asked here. `repeated`: whether it was tried before. `was_lost`: whether its lease had ended
    before that.
    """
    try:
        if isinstance(answer, LockBackendError):
            raise answer
        within = last - monotonic()
        held, again = await persist(driver, end_on, lease.deadline, lock=lease.name, within=within)
    except LockBackendError as error:
        note_unconfirmed(lease.token)
        if driver.background is not None:
            driver.background.add(end_on, lease.deadline)
        if lease.plan.terms.proceeds and may_proceed(error):
            logger.warning("%s; its block goes on (on_unavailable='proceed')", error)
            return True
        if not was_lost:
            error.may_be_done = True
            raise
        return False
    if not held and lease.is_lost_in_outage:
        logger.warning(
            "Lock %r ended while Redis could not be asked to renew it; its block goes on "
            "(on_unavailable='proceed')",
            lease.name,
        )
        return True
    # When a repeated release finds nothing, the first one most likely released, and its reply was
    # lost.
    return held or again or repeated or answer is UNHEARD or lease.ended_by_upgrade
