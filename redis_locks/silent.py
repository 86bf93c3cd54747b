"""Asking for a lock so that only its grant wakes us up.

Where processes take turns at a lock, who asks is told its place in the queue and, soon after, that the lock is its own.
To be woken up twice takes more of its processor than all else. So for a lock that was waited for briefly, last time, the server is
to send no reply (`CLIENT REPLY SKIP`): the message says it all, also if the lock was free. Without one
for a moment, whatever the reason, the question is asked again as ever, by token, so that it does no harm.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from redis_locks import observing, parked, store
from redis_locks.attempts import Attempt, Step, Won
from redis_locks.drivers.base import (
    PARKED,
    Answered,
    LinkBroken,
    PromptDriver,
    PromptLink,
    run_blocking,
)
from redis_locks.drivers.wire import pack_command
from redis_locks.store import Refused, Request

SILENCE: Final = 0.05
"""Seconds to listen for the grant before the question is asked again."""

BRIEF: Final = SILENCE / 2
"""Seconds within which a wait is a brief one: the next is likely to end within the silence, too."""

LEAST_LEASE_MS: Final = 1000
"""Milliseconds of lease from which on it matters little that the silence is part of it."""

SKIP_REPLY: Final = pack_command("CLIENT", "REPLY", "SKIP")

_DEAD: Final = 0.01
"""Seconds within which a link breaks that was dead before we asked, so that we stand in no queue."""


def is_due(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> bool:
    """Whether to ask silently; if so, we wait on `link`."""
    request, wait = attempt.request, attempt.wait
    return (
        link.quick_keys is not None
        # A set may be asked for in another order next time.
        and link.quick_keys.issuperset(request.keys)
        and request.mode == "exclusive"
        and request.lease_ms >= LEAST_LEASE_MS
        and (wait is None or wait > SILENCE)
        and driver.skips_replies is not False
        and driver.sits(link)
    )


def note(link: PromptLink, request: Request, won: Won) -> None:
    """Remember a lock that was waited for briefly, and of which nobody wants to know who was in the way."""
    if won.waited < BRIEF and link.hears_itself():
        link.quick_keys = frozenset(request.keys)


def ask(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> Won | Step:
    """Ask, and hear of the grant; return that, or how to go on. Raises LinkBroken.

    That somebody was in the way is told after the grant, without saying who. It is not told if the lock is handed on
    between the silence and the next question.
    """
    request, sent = attempt.request, attempt.started
    read: list[Any] | None = None
    try:
        parks = bool(request.reads) and parked.is_due(driver, link, SILENCE)
        listener = link.listener + PARKED if parks else link.listener
        token = request.token.encode()
        question = SKIP_REPLY + store.question(request, token, listener, attempt.wait_ms, 2)
        attempt.sent = True
        if parks:
            message, read = parked.ask(driver, link, attempt, token, question, SILENCE)
        else:
            message = link.message_after(question, token, SILENCE, attempt.meanwhile)
    except LinkBroken as error:
        _broken(driver, attempt, error)
        raise
    if message is None:
        return _unanswered(driver, link, attempt)
    driver.skips_replies = True
    heard = monotonic()
    _, fence, at_ms, *at_once = message.split(b" ")
    if at_once:
        link.quick_keys = None
    else:
        attempt.queued, attempt.uncontended = True, False
        observer = observing.observer
        if observer is not None and observer.count(
            "contended", request.names, driver.description, 0.0
        ):
            # Somebody wants to know by now: the next question is answered, and then says who it is.
            link.quick_keys = None
            run_blocking(observing.tell(driver, "contended", request, wait=attempt.wait))
    # The lease counts from when we asked, as nothing tells how long before the message it began.
    deadline, fencing_token = sent + request.lease_ms / 1000, int(fence)
    if fencing_token <= 0 or deadline <= monotonic():
        attempt.keep(link)
        return attempt.heard(link, message, Refused(int(at_ms), 0, ""), sent)
    if read is None:
        reads = request.reads
        read = link.exchange(b"".join(reads), len(reads)) if reads else []
    # Not `Won(…)`, a function more.
    return tuple.__new__(
        Won,
        (fencing_token, deadline, read, 0.0, None)
        if at_once
        else (fencing_token, deadline, read, heard - sent, heard),
    )


def _broken(driver: PromptDriver, attempt: Attempt, error: LinkBroken) -> None:
    """Note what it means that the link broke before the message came."""
    if isinstance(error, Answered):
        driver.skips_replies = False  # it may not, or cannot
    else:
        attempt.queued = monotonic() - attempt.started > _DEAD


def _unanswered(driver: PromptDriver, link: PromptLink, attempt: Attempt) -> Step:
    """Return how to go on, as no message came. Raises LinkBroken."""
    if driver.skips_replies is None:
        # Replies may come yet, which nobody is to take for those to what is asked next.
        link.forsake()
        raise LinkBroken("no message, and no refusal")
    link.quick_keys = None
    attempt.keep(link)
    return attempt.ask()
