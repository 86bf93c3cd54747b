"""One function per Lua script of run_once: typed arguments in, a small reply out."""

from __future__ import annotations

from typing import NamedTuple

from redis_locks.drivers.base import Link, argv
from redis_locks.protocol.store import Request, echoed, number_of
from redis_locks.run_once import scripts
from redis_locks.run_once.terms import JobTerms
from redis_locks.scripts import Script


class Begun(NamedTuple):
    """The attempt is ours.

    `last_error` says how the attempt before ended; empty if its lease ended.
    """

    attempt: int
    fencing_token: int
    last_error: str


class Locked(NamedTuple):
    """Somebody else holds the lock until `ends_ms`, unless renewed.

    `attempt` is the last attempt.
    """

    attempt: int
    at_ms: int
    ends_ms: int
    claim: str


class Done(NamedTuple):
    """`attempt` did the job; `result` is JSON, or empty if none was stored."""

    attempt: int
    result: str


class Failed(NamedTuple):
    """The last attempt failed and no other has begun. `attempt` is 0 if there was none.

    `last_error` says how it ended; empty if its lease ended.
    """

    attempt: int
    last_error: str


async def begin(link: Link, request: Request, terms: JobTerms) -> Begun | Locked | Done | Failed:
    """Begin the next attempt if the lock is free, or ours, and there is something to do.

    `Failed`: no attempt is left.
    """
    token = request.token
    words = argv(
        *(token, request.lease_ms, request.who, link.listener),
        *(terms.max_attempts, terms.kept_ms),
    )
    words += number_of(request)
    try:
        (reply,) = await link.call(scripts.BEGIN, (request.keys, words))
    except BaseException as error:
        request.break_off(error)
        raise
    _, word, attempt, rest = echoed(reply, token, 3)
    if word == "begun":
        fence, _, last_error = rest.partition(" ")
        return Begun(int(attempt), int(fence), last_error)
    return _known(word, attempt, rest)


async def finish(
    link: Link, script: Script, request: Request, attempt: int, kept_ms: int, outcome: str
) -> bool:
    """Run DONE or FAIL, which end the hold; False if the token did not hold the lock."""
    words = argv(request.token, attempt, kept_ms, outcome)
    (reply,) = await link.call(script, (request.keys, words))
    return echoed(reply, request.token, 1)[1] == "1"


async def status(link: Link, request: Request) -> Locked | Done | Failed:
    """Return what is known of the job; `Locked` is the attempt under way."""
    (reply,) = await link.call(scripts.STATUS, (request.keys, (request.token,)))
    _, word, attempt, rest = echoed(reply, request.token, 3)
    return _known(word, attempt, rest)


def _known(word: str, attempt: str, rest: str) -> Locked | Done | Failed:
    if word in ("locked", "running"):
        at_ms, ends_ms, claim = rest.split(" ", 2)
        return Locked(int(attempt), int(at_ms), int(ends_ms), claim)
    return Done(int(attempt), rest) if word == "done" else Failed(int(attempt), rest)
