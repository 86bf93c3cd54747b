"""The shortest way of nearly every acquire, release and commit.

A function that was not run a moment ago is slow, and where many processes take turns at a lock none
was: so what layers of coroutines do in all cases, a few functions do here in the usual ones. From
anything out of the ordinary on, those layers go on. `aacquire` and `arelease` do in tasks what `acquire` and
`release` do in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from redis_locks import observing, silent, store, waiting
from redis_locks.attempts import Attempt, Step, Won
from redis_locks.drivers.base import (
    Link,
    LinkBroken,
    OpenDriver,
    OpenLink,
    PromptDriver,
    PromptLink,
    run_blocking,
)
from redis_locks.drivers.wire import pack_command
from redis_locks.leases import Lease
from redis_locks.packed import Packed, packed
from redis_locks.store import Refused, Request

HEIR_FIRST: Final = pack_command("PING", "")
"""Before what hands a lock on: the next holder hears of that before we hear that we have released.

A server sends at the end of a round of its loop what it has for each client, in the reverse of the order in
which it first had something for them. So it has something for us first. Elsewhere than in Redis and Valkey it may be in vain, and does no harm.
"""

_GRANTED = store.GRANTED.encode()


def acquire(
    driver: PromptDriver,
    request: Request,
    wait: float | None,
    patience: float | None,
    meanwhile: Callable[[], object],
) -> Won | Refused | None:
    """Acquire one group of locks as `waiting.acquire` does; None if that is to be asked, as nothing was done.

    `meanwhile` may be called while the server is at work.
    """
    link = driver.idle_link_to_wait()
    if link is None:
        return None
    # As its constructor makes it: to call that takes three times as long.
    attempt: Attempt = Attempt.__new__(Attempt)
    attempt.driver = driver
    attempt.request = request
    attempt.token = request.token
    attempt.wait = wait
    attempt.started = started = monotonic()
    if patience is not None:
        attempt.suspicious_at = attempt.long_at = started + patience
    attempt.wait_ms = -1 if wait is None else (int(wait * 1000) or 1) if wait else 0
    attempt.link = link
    attempt.meanwhile = meanwhile
    try:
        try:
            silently = link.quick_keys is not None and silent.is_due(driver, link, attempt)
            outcome = (silent.ask if silently else _ask)(driver, link, attempt)
            if isinstance(outcome, tuple):
                # Here, so that an interrupt meanwhile takes back what was won.
                attempt.link = None  # as `close`; what is next asked there listens for its own
                driver.checkin(link)
                return outcome
        except LinkBroken as error:
            outcome = attempt.reconnect(error)
        return run_blocking(waiting.finish(attempt, outcome))
    except BaseException:
        # Also if it comes between two steps; `finish` may have done the same.
        run_blocking(waiting.give_up(attempt))
        raise


async def aacquire(
    driver: OpenDriver, request: Request, wait: float | None, patience: float | None
) -> Won | Refused | None:
    """Acquire as `acquire` does."""
    link = driver.open_link()
    if link is None:
        return None
    attempt = Attempt(driver, request, wait, patience)
    attempt.keep(link)
    try:
        outcome = await _aask(driver, link, attempt)
        if isinstance(outcome, tuple):
            attempt.close()
            return outcome
    except LinkBroken as error:
        outcome = attempt.reconnect(error)
    except BaseException:
        await waiting.give_up(attempt)
        raise
    return await waiting.finish(attempt, outcome)


def _ask(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> Won | Refused | Step:
    """Ask, and stand in the queue once; return the outcome, or how to go on."""
    request = attempt.request
    attempt.sent = True
    token = attempt.token.encode()
    reads = request.reads
    question = store.question(request, token, link.listener, attempt.wait_ms, 1)
    if reads:
        question = b"".join((question, *reads))
    answer, *read = link.exchange(question, 1 + len(reads), attempt.meanwhile, token)
    outcome = _outcome(link, attempt, answer, read)
    if not isinstance(outcome, Refused):
        return outcome or attempt.ask()
    return _stand(driver, link, attempt, outcome)


def _stand(
    driver: PromptDriver, link: PromptLink, attempt: Attempt, outcome: Refused
) -> Won | Refused | Step:
    """Stand in the queue, for the first time; return as `_ask`."""
    request = attempt.request
    observer = observing.observer
    wanted = observer is not None and observer.count(
        "contended", request.names, driver.description, 0.0
    )
    if wanted:
        run_blocking(
            observing.tell_of_holder(driver, "contended", request, outcome, wait=attempt.wait)
        )
    if attempt.wait == 0:
        return outcome
    if not driver.sits(link):
        return attempt.ask()
    message = link.message_for(attempt.token, attempt.pause(outcome))
    won = _won_by(attempt, message, outcome)
    if won is None:
        return attempt.heard(link, message, outcome, attempt.started)
    if not wanted:
        silent.note(link, request, won)
    if reads := request.reads:
        return won._replace(read=link.exchange(b"".join(reads), len(reads)))
    return won


async def _aask(driver: OpenDriver, link: OpenLink, attempt: Attempt) -> Won | Refused | Step:
    """Ask as `_ask` does."""
    request = attempt.request
    attempt.sent = True
    question = store.question(request, attempt.token.encode(), link.listener, attempt.wait_ms, 1)
    reply, *others = link.ask(b"".join((question, *request.reads)), 1 + len(request.reads))
    outcome = _outcome(link, attempt, await reply, [await other for other in others])
    if not isinstance(outcome, Refused):
        return outcome or attempt.ask()
    observer = observing.observer
    if observer is not None and observer.count("contended", request.names, driver.description, 0.0):
        await observing.tell_of_holder(driver, "contended", request, outcome, wait=attempt.wait)
    if attempt.wait == 0:
        return outcome
    message = await link.receive(attempt.token, attempt.pause(outcome))
    won = _won_by(attempt, message, outcome)
    if won is None:
        return attempt.heard(link, message, outcome, attempt.started)
    if reads := request.reads:
        return won._replace(read=await link.read(reads, request.keys))
    return won


def _outcome(link: Link, attempt: Attempt, answer: object, read: list[Any]) -> Won | Refused | None:
    """Return what came of the question; None if it is to be asked in the longer way. Raises LinkBroken."""
    if isinstance(answer, bytes):
        words = answer.split(b" ", 3)
        if words[:2] == [attempt.token.encode(), _GRANTED]:
            # Not `Won(…)`, a function more.
            deadline = attempt.started + attempt.request.lease_ms / 1000
            return tuple.__new__(Won, (int(words[2]), deadline, read, 0.0, None))
    verified = _verified(link, answer, attempt.token)
    if verified is None:
        return None  # the server does not know the script, or will say again what is wrong
    reply = store.refused(verified.decode(errors="replace").split(" ", 4))
    attempt.queued = attempt.wait != 0
    if store.may_be_buried(reply.claim):
        return None
    attempt.uncontended = False
    return reply


def _won_by(attempt: Attempt, message: bytes | None, reply: Refused) -> Won | None:
    """Return what a message, heard just now, has granted; None if there is more to it."""
    granted = store.grant_message(message) if message is not None else None
    if granted is None or granted.fencing_token <= 0:
        return None
    return attempt.won_by(granted, reply, attempt.started)


def release(driver: PromptDriver, lease: Lease, meanwhile: Callable[[], object]) -> bool:
    """Release the hold of `lease`, which is not over; whether that is done.

    `meanwhile` is called as soon as the release is sent; if it is not, that is left to the caller.
    If not, the lease says what is known: it is lost, or has `ended` if its release may have been
    applied.
    """
    try:
        call = _calls(lease).release(lease.token.encode())
        answer = _reply_to(driver, call, lease, meanwhile)
    except LinkBroken:
        return False
    return (answer is not None and answer.endswith(b" 1")) or _released(lease, answer)


async def arelease(driver: OpenDriver, lease: Lease) -> bool:
    """Release as `release` does. Cancelled, the release may have been applied."""
    link, answer = driver.open_link(), None
    if link is not None:
        try:
            (reply,) = link.ask(_calls(lease).release(lease.token.encode()))
            answer = _verified(link, await reply, lease.token)
        except LinkBroken:
            return False
    return _released(lease, answer)


def _calls(lease: Lease) -> Packed:
    """Return what packs the calls that end the hold of `lease`."""
    ready, keys = lease.request.packed, lease.keys
    return packed(keys) if ready is None or ready.keys is not keys else ready


def _released(lease: Lease, answer: bytes | None) -> bool:
    """Note what the server has answered, or that it was not asked; whether it has released."""
    if answer is None:
        lease.ended = False
        return False
    held = answer.endswith(b" 1")  # as `store.release_reply`; whose reply it is was verified
    if not held:
        lease.lost = True
    return held


def commit(
    driver: PromptDriver,
    lease: Lease,
    commands: Sequence[Sequence[bytes]],
    meanwhile: Callable[[], object] | None = None,
) -> str | None:
    """Run commands and end the hold of `lease`, as `store.commit`; None if that is to be asked, perhaps again.

    `meanwhile` as in `release`, if given.
    """
    token = lease.token
    try:
        call = _calls(lease).commit(store.commit_words(token, commands))
        answer = _reply_to(driver, call, lease, meanwhile)
    except LinkBroken:
        return None
    if answer is None:
        return None
    done = answer == b"%b 1" % token.encode()  # as nearly all are
    return "" if done else store.commit_reply(answer, token)


def _reply_to(
    driver: PromptDriver,
    call: bytes,
    lease: Lease,
    meanwhile: Callable[[], object] | None,
) -> bytes | None:
    """Send a call that ends the hold of `lease`, and return its reply; None if it did not run.

    That is so if no link is idle, or the server does not know the script, or refuses it. Raises
    LinkBroken if it may have run.
    """
    try:
        link = driver.pop_idle()
    except IndexError:
        return None
    try:
        if lease.awaited:
            _, answer = link.exchange(HEIR_FIRST + call, 2, meanwhile)
        else:
            (answer,) = link.exchange(call, 1, meanwhile)
        if isinstance(answer, bytes) and answer.startswith(lease.token.encode() + b" "):
            return answer  # as `_verified`, which nearly all are
        return _verified(link, answer, lease.token)
    except LinkBroken:
        driver.drop_idle()  # as after any failure: those are probably dead too
        raise
    finally:
        driver.checkin(link)


def _verified(link: Link, answer: object, token: str) -> bytes | None:
    """Return the reply of a script, which is for `token`; None if that did not run. Raises LinkBroken."""
    if not isinstance(answer, bytes):
        return None
    if not answer.startswith(b"%b " % token.encode()):
        link.forsake()  # a reply out of step: no other one is to be believed
        raise LinkBroken("the reply is for somebody else")
    return answer
