"""The shortest way of nearly every acquire, release and commit in blocking code.

A function that was not run a moment ago is slow, and where many processes take turns at a lock none
was: so what layers of coroutines do in all cases, a few functions do here in the usual ones. From
anything out of the ordinary on, those layers go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_locks import observing, scripts, store, waiting
from redis_locks.attempts import Attempt, Step, Won
from redis_locks.drivers.base import Call, LinkBroken, PromptDriver, PromptLink, run_blocking
from redis_locks.drivers.wire import pack_call
from redis_locks.leases import Lease
from redis_locks.scripts import Script
from redis_locks.store import Granted, Refused, Request


def acquire(
    driver: PromptDriver, request: Request, wait: float | None, patience: float | None
) -> Won | Refused | None:
    """Acquire one group of locks as `waiting.acquire` does; None if that is to be asked, as nothing was done."""
    link = driver.idle_link_to_wait()
    if link is None:
        return None
    attempt = Attempt(driver, request, wait, patience)
    attempt.keep(link)
    try:
        try:
            outcome = _ask(driver, link, attempt)
            if isinstance(outcome, tuple):
                attempt.close()  # here, so that an interrupt meanwhile takes back what was won
                return outcome
        except LinkBroken as error:
            outcome = attempt.reconnect(error)
        return run_blocking(waiting.finish(attempt, outcome))
    except BaseException:
        # Also if it comes between two steps; `finish` may have done the same.
        run_blocking(waiting.give_up(attempt))
        raise


def _ask(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> Won | Refused | Step:
    """Ask, and stand in the queue once; return the outcome, or how to go on."""
    request, wait, sent = attempt.request, attempt.wait, attempt.started
    attempt.sent = True
    call = store.acquire_call(request, link.listener, attempt.wait_ms(sent), first=True)
    packed = pack_call(scripts.ACQUIRE, call)
    answer, *read = link.exchange(b"".join((packed, *request.reads)), 1 + len(request.reads))
    if not isinstance(answer, bytes):
        return attempt.ask()  # the server does not know the script, or will say again what is wrong
    reply = store.acquire_reply(answer, request.token)
    if isinstance(reply, Granted):
        return Won(reply.fencing_token, sent + request.lease_ms / 1000, read)
    attempt.queued = wait != 0
    if store.may_be_buried(reply.claim):
        return attempt.ask()
    attempt.uncontended = False
    observer = observing.observer
    if observer is not None and observer.count("contended", request.names, driver.description, 0.0):
        run_blocking(observing.tell_of_holder(driver, "contended", request, reply, wait=wait))
    return reply if wait == 0 else _stand(driver, link, attempt, reply)


def _stand(driver: PromptDriver, link: PromptLink, attempt: Attempt, reply: Refused) -> Won | Step:
    """Stand in the queue until granted, or until it is time to ask again."""
    if not driver.sits(link):
        return attempt.ask()
    sent = attempt.started
    message = link.message_for(attempt.token, attempt.pause(reply))
    granted = store.grant_message(message) if message is not None else None
    won = None
    if granted is not None and granted.fencing_token > 0:
        won = attempt.won_by(granted, reply, sent)
    if won is None:
        return attempt.heard(link, message, reply, sent)
    if reads := attempt.request.reads:
        return won._replace(read=link.exchange(b"".join(reads), len(reads)))
    return won


def release(driver: PromptDriver, lease: Lease) -> bool:
    """Release the hold of `lease`, which is not over; whether that is done.

    If not, the lease says what is known: it is lost, or has `ended` if its release may have been
    applied.
    """
    token = lease.token
    try:
        answer = _reply_to(driver, scripts.RELEASE, (lease.keys, (token,)), token)
    except LinkBroken:
        return False
    if answer is None:
        lease.ended = False
        return False
    held = store.release_reply(answer, token)
    if not held:
        lease.lost = True
    return held


def commit(driver: PromptDriver, lease: Lease, commands: Sequence[Sequence[bytes]]) -> str | None:
    """Run commands and end the hold of `lease`, as `store.commit`; None if that is to be asked, perhaps again."""
    token = lease.token
    try:
        answer = _reply_to(
            driver, scripts.COMMIT, store.commit_call(lease.keys, token, commands), token
        )
    except LinkBroken:
        return None
    return None if answer is None else store.commit_reply(answer, token)


def _reply_to(driver: PromptDriver, script: Script, call: Call, token: str) -> bytes | None:
    """Run a script and return its reply, which is for `token`; None if it did not run.

    That is so if no link is idle, or the server does not know the script, or refuses it. Raises
    LinkBroken if it may have run.
    """
    link = driver.idle_link()
    if link is None:
        return None
    try:
        (answer,) = link.exchange(pack_call(script, call))
        if isinstance(answer, bytes) and not answer.startswith(b"%b " % token.encode()):
            link.forsake()  # a reply out of step: no other one is to be believed
            raise LinkBroken("the reply is for somebody else")
    except LinkBroken:
        driver.drop_idle()  # as after any failure: those are probably dead too
        raise
    finally:
        driver.checkin(link)
    return answer if isinstance(answer, bytes) else None
