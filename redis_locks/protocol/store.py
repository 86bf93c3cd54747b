"""One function per Lua script: typed arguments in, a small frozen reply out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis_locks import scripts
from redis_locks.drivers.base import Call, Link, LinkBroken, argv
from redis_locks.drivers.resp import ErrorReply, as_lists
from redis_locks.exceptions import LockError, LockLost
from redis_locks.scripts import Script
from redis_locks.values.claims import FIELDS
from redis_locks.values.keys import Keys


@dataclass(slots=True)
class Request:
    """What one token asks for: all locks of a set, or none. `mode` as `_prelude.lua` says.

    Never changed, except for `broken_off`. `names`, and the `template` they were made from, are for
    messages only.
    """

    keys: Keys
    token: str
    lease_ms: int
    mode: str
    who: str
    reads: tuple[bytes, ...] = ()
    """Packed commands to run as soon as the locks are held."""
    names: tuple[str, ...] = ()
    template: str | None = None
    replicas: int = 0
    """How many replicas have to know of the grant, and of each extend, before it counts."""
    broken_off: int = 0
    """How many questions of the token were broken off, and so may still reach the server; see
    `_late.lua`.
    """
    max_waiting: int | None = None
    """How many may wait for each lock; None: any number."""
    reused: bool = False
    """Whether the token may be used again, by somebody else: a task queue delivers a message twice.
    """

    @property
    def name(self) -> str:
        """The name of the lock; those of a set are joined with commas."""
        return ", ".join(self.names)

    def break_off(self, error: BaseException) -> None:
        """Count a question that raised `error`, unless that is the server's answer."""
        if not isinstance(error, LockError):
            self.broken_off += 1


GRANTED: Final = "1"
"""The word after the token of a reply to `acquire` that says so."""

_DEADLOCK: Final = "1"
_UNFINISHED: Final = "2"
_SHARED_IS_LOST: Final = "2"
_CANCELLED: Final = "3"
_LATE: Final = "4"
_FULL: Final = "5"


class Won(NamedTuple):
    """A hold: its fencing token, and when its lease ends on this process's monotonic clock.

    `read` are the replies to what was asked to be read as soon as it was held; `waited` are the
    seconds in the queue; `since` is when it began, if that is known better than by the lease.
    """

    fencing_token: int
    deadline: float
    read: Sequence[Any]
    waited: float = 0.0
    since: float | None = None


class Granted(NamedTuple):
    """The lock is ours since `at_ms`, server time."""

    fencing_token: int
    at_ms: int


class Refused(NamedTuple):
    """The lock is somebody else's until `ends_ms`, unless renewed; `claim` is theirs, or empty.

    `place`: which lock of the set it is. `full_at`: how many may wait, if so many do and the caller
    does not.
    """

    at_ms: int
    ends_ms: int
    claim: str
    place: int = 0
    full_at: int | None = None


def echoed(reply: object, token: str, parts: int) -> list[str]:
    """Split a reply into at most `parts` parts after the token it starts with."""
    words = reply.decode(errors="replace").split(" ", parts) if isinstance(reply, bytes) else []
    # A connection that is one reply out of step would give us somebody else's grant.
    if not words or words[0] != token:
        msg = f"the reply {reply!r} is not for token {token}"
        raise LinkBroken(msg)
    return words


async def acquire(
    link: Link,
    request: Request,
    wait_ms: int,
    sent: float,
    *,
    first: bool = False,
    detection: Call | None = None,
) -> tuple[Won | Refused, Looked | None]:
    """Take the locks if free; else join the queue, and look for a deadlock in the same round trip.

    Args:
        link: Where to ask; it receives the grant.
        request: What is asked for.
        wait_ms: For how long to stand in the queue. 0: do not join it. -1: for ever.
        sent: The time before it is sent, on the monotonic clock: the lease counts from there.
        first: Whether nothing was ever sent for this request, which saves looking for its place in
            the queue.
        detection: What `detect_call` returned; None: do not look.

    Returns:
        What became of it, and what the look has found; None if there was none, or the locks were
        granted.

    Raises:
        LockLost: The shared hold of an upgrade is lost.
        LockError: The wait was cancelled.
    """
    reads = request.reads
    call = acquire_call(request, link.listener, wait_ms, "1" if first else "0")
    if detection is not None:
        reads = (*reads, link.packed(scripts.DETECT, detection))
    try:
        reply, *read = await link.call(scripts.ACQUIRE, call, reads)
        found = None if detection is None else read.pop()
        answer = acquired(request, reply, sent, read)
    except BaseException as error:
        request.break_off(error)
        raise
    if answer is None:
        return await acquire(link, request, wait_ms, sent, first=first, detection=detection)
    if detection is None or isinstance(answer, Won):
        return answer, None
    if not isinstance(found, bytes):
        # The server may not know that script, or says again what is wrong.
        (found,) = await link.call(scripts.DETECT, detection)
    return answer, detect_reply(found, request.token)


def won(reply: bytes, token: str) -> int:
    """Return the fencing token if a reply to `acquire_call` grants the locks to `token`, else 0."""
    words = reply.split(b" ")
    is_whole = len(words) == 4  # noqa: PLR2004 - as it is written
    granted = is_whole and words[1] == b"1" and words[0] == token.encode()
    return int(words[2]) if granted else 0


def acquired(
    request: Request, reply: object, sent: float, read: Sequence[Any] = ()
) -> Won | Refused | None:
    """Return what a reply to `acquire_call` says; `read` are those to the request's reads.

    None: ask again.

    Raises LinkBroken, LockLost and LockError; see `acquire`.
    """
    words = echoed(reply, request.token, 4)
    if words[1] == GRANTED:
        return Won(int(words[2]), sent + request.lease_ms / 1000, read)
    if words[1] == _CANCELLED:
        raise cancelled(request)
    if words[1] == _LATE:
        # It is not: a task queue has delivered the message again that this token belongs to.
        request.broken_off = int(words[2])
        return None
    _require_shared(words[1])
    refused = _refused(words[2], words[3], words[4])
    return refused._replace(full_at=request.max_waiting) if words[1] == _FULL else refused


def milliseconds_of(wait: float | None) -> int:
    """Return for how long to stand in the queue, as `acquire` takes it."""
    return (int(wait * 1000) or 1) if wait else -1 if wait is None else 0


def read_replies(replies: Sequence[Any]) -> list[Any]:
    """Return the replies; maps, as of HGETALL, are lists of keys and values.

    Raises:
        ResponseError: The server refused a command.
    """
    for reply in replies:
        if isinstance(reply, ErrorReply):
            # Not above: redis-py is imported when a connection is, for start-up's sake.
            from redis.exceptions import ResponseError

            raise ResponseError(reply.text)
    return list(map(as_lists, replies))


def acquire_call(request: Request, listener: str, wait_ms: int, how: str) -> Call:
    """Return the call that takes the locks or joins the queue; see `acquire`.

    `how`: 0 the token asked before, 1 it asks first, 2 it asks first and reads no reply.
    """
    token, lease, mode, who = request.token, str(request.lease_ms), request.mode, request.who
    if request.broken_off or request.max_waiting:
        how, number = "0" if request.broken_off else how, str(request.broken_off)
        bound = () if request.max_waiting is None else (str(request.max_waiting),)
        words = (token, lease, mode, who, listener, str(wait_ms), how, number, *bound)
        return request.keys, words
    return request.keys, (token, lease, mode, who, listener, str(wait_ms), how)


def number_of(request: Request) -> list[bytes | str]:
    """Return the last argument of scripts: how many questions were broken off, if any were."""
    return argv(request.broken_off) if request.broken_off else []


def cancelled(request: Request) -> LockError:
    """Return the error of a wait that an operator ended."""
    return LockError(f"The wait for lock {request.name!r} was cancelled by an operator")


def _require_shared(word: str) -> None:
    """Raise LockLost if the word after the token says that an upgrade lost its shared hold."""
    if word == _SHARED_IS_LOST:
        msg = "the shared hold was lost while it waited to become exclusive"
        raise LockLost(msg)


def _refused(at_ms: str, ends_ms: str, claim: str) -> Refused:
    ends, _, place = ends_ms.partition("/")
    return Refused(int(at_ms), int(ends), claim, int(place or 1) - 1)


async def take(
    link: Link,
    request: Request,
    groups: Sequence[Sequence[int]],
    most: int,
    *,
    read_ago: float = 0.0,
    first: bool = False,
) -> tuple[Granted | None, list[int]]:
    """Take the groups of locks that are free, `most` at most; return which.

    A group is the places of its locks in the set, from 0; one without locks counts as free. There
    is no grant if no lock was taken. `first` as in `acquire`. `read_ago`: how many seconds ago the
    caller began to read what the locks are for; those that were granted since come last.
    """
    token, lease_ms, mode, who = request.token, request.lease_ms, request.mode, request.who
    wanted = " ".join(",".join(str(place + 1) for place in group) or "-" for group in groups)
    asked = (token, lease_ms, mode, who, link.listener, most, wanted)
    words = argv(*asked, int(first), int(read_ago * 1e6)) + number_of(request)
    try:
        (reply,) = await link.call(scripts.TAKE, (request.keys, words))
    except BaseException as error:
        request.break_off(error)
        raise
    _, fence, at_ms, *numbers = echoed(reply, token, len(groups) + 3)
    granted = Granted(int(fence), int(at_ms)) if fence != "0" else None
    return granted, [int(number) - 1 for number in numbers]


async def release(link: Link, keys: Keys, token: str) -> bool:
    """End the hold and hand the locks on; False if the token did not hold all of them."""
    (reply,) = await link.call(scripts.RELEASE, (keys, (token,)))
    return echoed(reply, token, 1)[1] == "1"


async def close(
    link: Link, keys: Keys, token: str, closer: str, at_least_ms: int, who: str
) -> bool:
    """End the hold, but let `closer` have the locks until so long after the grant; as `release`."""
    words = argv(token, closer, at_least_ms, who)
    (reply,) = await link.call(scripts.CLOSE, (keys, words))
    return echoed(reply, token, 1)[1] == "1"


class Ended(NamedTuple):
    """The tokens of the ended holds, and the fencing token that overtakes theirs.

    It is 0 if none was ended.
    """

    tokens: list[str]
    fencing_token: int


async def force_release(link: Link, keys: Keys, token: str, holds: Sequence[str]) -> Ended:
    """End the holds of these tokens and hand the lock on.

    `token` names this force-release, so that asked again it says what it did.
    """
    (reply,) = await link.call(scripts.FORCE_RELEASE, (keys, (token, *holds)))
    _, fence, *ended = echoed(reply, token, len(holds) + 1)
    return Ended(ended, int(fence))


class Adopted(NamedTuple):
    """A hold has another token at `at_ms`, server time, with so many ms left of its lease."""

    at_ms: int
    left_ms: int
    fencing_token: int


def adopt_call(heir: Request, token: str, fencing_token: int = 0) -> Call:
    """Return the call that gives the hold of `token` to `heir`; see `adopt`."""
    words = argv(token, heir.token, heir.lease_ms, heir.who, fencing_token)
    return heir.keys, words + number_of(heir)


async def adopt(link: Link, heir: Request, token: str, fencing_token: int = 0) -> Adopted | None:
    """Give the hold of `token` the token of `heir`, its lease and who it is; None if there is none.

    `fencing_token`: that of the hold, if it got a higher one since it was granted.
    """
    try:
        (reply,) = await link.call(scripts.ADOPT, adopt_call(heir, token, fencing_token))
    except BaseException as error:
        heir.break_off(error)
        raise
    words = echoed(reply, token, 5)
    if words[1] == "0":
        return None
    at_ms, ends_ms, fencing_token = map(int, words[2:])
    return Adopted(at_ms, ends_ms - at_ms, fencing_token)


def has_crash_release(claim: str) -> bool:
    """Return whether the holder asked for `crash_release`."""
    return claim.count("\t") == FIELDS


class CrashLook(NamedTuple):
    """What a look at holders that may be gone has found.

    `ended`: how many holds it ended. `near`: how many waiters stand nearer to an end of the queue
    than the caller.
    """

    ended: int
    near: int


async def crash_release(link: Link, keys: Keys, token: str) -> CrashLook:
    """End the holds of processes that are gone, of those that may be."""
    (reply,) = await link.call(scripts.CRASH_RELEASE, (keys, (token,)))
    _, ended, near = echoed(reply, token, 2)
    return CrashLook(int(ended), int(near))


async def cancel(link: Link, keys: Keys, token: str, waiter: str) -> bool:
    """End the wait of the token `waiter` and tell it; False if that does not wait for the lock.

    `token` names this cancellation, so that asked again it says what it did.
    """
    (reply,) = await link.call(scripts.CANCEL, (keys, (token, waiter)))
    return echoed(reply, token, 1)[1] == "1"


class Commands(NamedTuple):
    """Commands for a commit, as arguments of its script."""

    words: Sequence[bytes | str]
    """Of each command how many words it has, and these."""
    packed: bytes
    """The same in RESP."""


async def commit(link: Link, keys: Keys, token: str, commands: Commands) -> str | None:
    """Run the commands and end the hold, in one step; None if the token did not hold, so neither.

    Returns the text of the first error among the commands, or "".
    """
    (reply,) = await link.call(scripts.COMMIT, (keys, (token, *commands.words)))
    return commit_reply(reply, token)


def commit_reply(reply: object, token: str) -> str | None:
    """Return what the reply says; see `commit`."""
    _, done, *error = echoed(reply, token, 2)
    return None if done == "0" else "".join(error)


Circle = list[dict[str, Any]]
"""The waits of a deadlock, the caller's first."""


class Looked(NamedTuple):
    """What a look for a deadlock has found, and when the next one is due."""

    circle: Circle | None
    """The waits of the deadlock for which the caller's wait was ended."""
    pause: float
    """Seconds until the next look, at least."""
    rest: str | None
    """What that has to go on with ("": from the beginning); None: this look has come to its end."""


def detect_call(
    request: Request, where: str, forsaken: str, held: Sequence[bytes] | None, why: str, rest: str
) -> Call:
    """Return the call that looks whether this wait is part of a deadlock; see `detect.lua`.

    Args:
        request: The wait.
        where: The line of code that waits.
        forsaken: The tokens, with spaces between, that hold but that nobody uses any more.
        held: The keys of the locks that the caller holds; None if they are not known.
        why: "first", "again" or "told".
        rest: What an earlier look has left to do, or "".
    """
    holds = "" if held is None else json.dumps([key.decode() for key in held], ensure_ascii=False)
    words = (request.token, request.mode, request.who, where, forsaken, holds, why, rest)
    return request.keys, words


def detect_reply(reply: object, token: str) -> Looked:
    """Return what the reply says; see `acquire`."""
    _, found, said = echoed(reply, token, 2)
    if found == _DEADLOCK:
        return Looked(list(json.loads(said)), 0, None)
    pause_ms, _, rest = said.partition(" ")
    return Looked(None, int(pause_ms) / 1000, rest if found == _UNFINISHED else None)


async def downgrade(link: Link, keys: Keys, token: str) -> bool:
    """Turn an exclusive hold into a shared one; False if the token did not hold all the locks."""
    (reply,) = await link.call(scripts.DOWNGRADE, (keys, (token,)))
    return echoed(reply, token, 1)[1] == "1"


async def give_up(link: Link, request: Request) -> Refused:
    """Give up, and hand on what was granted meanwhile; return who holds the lock now.

    Raises LockLost for an upgrade whose shared hold is lost.
    """
    token = request.token
    words = argv(token, request.mode) + number_of(request)
    (reply,) = await link.call(scripts.GIVE_UP, (request.keys, words))
    _, *said = echoed(reply, token, 3)
    _require_shared(said[0])
    return _refused(*said)


def extend_call(keys: Keys, token: str, lease_ms: int) -> Call:
    """Return the call that makes a lease last `lease_ms` from now at least."""
    return keys, (token, str(lease_ms))


def extend_reply(reply: object, token: str) -> int | None:
    """Return how many ms were left of the lease when the call ran, or None if it was lost."""
    words = echoed(reply, token, 4)  # `adopt` says one word more
    return int(words[3]) - int(words[2]) if words[1] == "1" else None


async def extend(link: Link, script: Script, keys: Keys, token: str, lease_ms: int) -> int | None:
    """Make the lease last `lease_ms` from now at least; see `extend_reply`."""
    (reply,) = await link.call(script, extend_call(keys, token, lease_ms))
    return extend_reply(reply, token)


async def raise_fence(
    link: Link, keys: Keys, token: str, lease_ms: int, fencing_token: int
) -> int | None:
    """Give a hold a fencing token at least so high, and extend it; replies as `extend` does."""
    (reply,) = await link.call(scripts.FENCE, (keys, argv(token, lease_ms, fencing_token)))
    return extend_reply(reply, token)


LOOK: Final = 0
"""In place of a fencing token: the waiter is to look for a deadlock."""

CANCELLED: Final = -1
"""In place of a fencing token: an operator has ended the wait."""


def grant_message(message: bytes) -> Granted:
    """Return the grant that a script told a waiter. If the fencing token is below 1, it is none.

    It may be `LOOK` or `CANCELLED`. With any other one below 1, the waiter is to ask again.
    """
    _, fence, at_ms, *_ = message.split(b" ")
    return Granted(int(fence), int(at_ms))
