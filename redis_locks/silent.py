"""Asking for a lock so that only its grant wakes us up.

Where processes take turns at a lock, who asks is told its place in the queue and, soon after, that the lock is its own.
To be woken up twice takes more of its processor than all else. So for a lock that was waited for shortly, last time, the server is
to send no reply (`CLIENT REPLY SKIP`): the message says it all, also if the lock was free. Without one
for a moment, whatever the reason, the question is asked again as ever, by token, so that it does no harm.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from redis_locks import observing, scripts, store
from redis_locks.attempts import Attempt, Step, Won
from redis_locks.drivers.base import Answered, PromptDriver, PromptLink, run_blocking
from redis_locks.drivers.wire import pack_call, pack_command
from redis_locks.store import Refused, Request

SILENCE: Final = 0.05
"""Seconds to listen for the grant before the question is asked again."""

SHORT: Final = SILENCE / 2
"""Seconds within which a wait is a short one: the next is likely to end within the silence, too."""

SKIP_REPLY: Final = pack_command("CLIENT", "REPLY", "SKIP")


def is_due(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> bool:
    """Whether to ask silently; if so, we wait on `link`."""
    wait = attempt.wait
    return (
        link.handed_on == attempt.request.keys
        and (wait is None or wait > SILENCE)
        and driver.skips_replies
        and driver.sits(link)
    )


def note(link: PromptLink, request: Request, won: Won) -> None:
    """Note how a wait has ended of which nobody wants to know who was in the way."""
    if won.waited < SHORT and request.mode == "exclusive":
        link.handed_on = request.keys


def ask(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> Won | Step:
    """Ask, and hear of the grant; return that, or how to go on. Raises LinkBroken."""
    request, token, sent = attempt.request, attempt.token, attempt.started
    call = store.acquire_call(
        request, link.listener, attempt.wait_ms(sent), first=True, silent=True
    )
    question = SKIP_REPLY + pack_call(scripts.ACQUIRE, call)
    attempt.sent = attempt.queued = True
    try:
        message = link.message_after(question, token, SILENCE)
    except Answered:
        driver.skips_replies = False  # it may not, or cannot
        raise
    if message is None:
        link.handed_on = None
        attempt.keep(link)
        return attempt.ask()
    _, fence, at_ms, *at_once = message.split(b" ")
    if at_once:
        link.handed_on = None
    else:
        attempt.uncontended = False
        if observing.counted("contended", request, driver):
            # Somebody wants to know by now: the next question is answered, and says who holds the lock.
            link.handed_on = None
            run_blocking(observing.tell(driver, "contended", request, wait=attempt.wait))
    # The lease counts from when we asked, as nothing tells how long before the message it began.
    heard, deadline, fencing_token = monotonic(), sent + request.lease_ms / 1000, int(fence)
    if fencing_token <= 0 or deadline <= heard:
        attempt.keep(link)
        return attempt.heard(link, message, Refused(int(at_ms), 0, ""), sent)
    reads = request.reads
    read = link.exchange(b"".join(reads), len(reads)) if reads else []
    return Won(fencing_token, deadline, read, 0.0 if at_once else heard - sent)
