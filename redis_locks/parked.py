"""Reading what a holder wants to know first without one more round trip, also when the lock is handed on.

Who asks silently (see `silent`) for a lock and for something to be read has the server wait for its turn in a
list (``BLPOP``), for as long as it would listen itself, with the reads behind that in the same packet. Whoever hands
the lock on puts the turn there. Then the server reads at once, in the same round of its loop, and sends the
grant and what it has read together. Nobody reads for anybody else: each needs the rights to what it reads.
"""

from __future__ import annotations

from typing import Any

from redis_locks.attempts import Attempt
from redis_locks.drivers.base import LinkBroken, PromptDriver, PromptLink
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.wire import pack_command
from redis_locks.keys import turn_key


def is_due(driver: PromptDriver, link: PromptLink, attempt: Attempt, seconds: float) -> bool:
    """Whether to wait so for `seconds`. Raises LinkBroken."""
    return bool(
        attempt.request.reads
        and driver.parks
        and driver.skips_replies
        and driver.reply_timeout > 2 * seconds
        and link.listens_parked()
    )


def ask(
    driver: PromptDriver, link: PromptLink, attempt: Attempt, question: bytes, seconds: float
) -> tuple[bytes | None, list[Any] | None]:
    """Ask what has no reply, and wait for a message; return that and what was read since it was sent.

    No message: none came for `seconds`. Nothing read: that has to be asked for yet. Raises LinkBroken.
    """
    request = attempt.request
    turn = pack_command("BLPOP", turn_key(request.keys[0], request.token), f"{seconds:.3f}")
    link.listen(request.token)
    came, *read = link.exchange(b"".join((question, turn, *request.reads)), 1 + len(request.reads))
    if isinstance(came, ErrorReply):
        # We may not wait so; or not skip replies any more, and then there are more of them than we know.
        driver.parks = False
        link.forsake()
        raise LinkBroken(came.text)
    message = link.message_for(request.token, 0)
    # If our turn did not come, it was read before the lock was held.
    return message, read if came is not None and message is not None else None
