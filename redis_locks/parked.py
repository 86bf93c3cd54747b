"""Reading what a holder wants to know first without one more round trip, also when the lock is handed on.

Who asks silently (see `silent`) for a lock and for something to be read has the server wait for its turn in a
list (``BLPOP``), for as long as it would listen itself, with the reads behind that in the same packet. Whoever hands
the lock on, or tells it something else, puts that there. Then the server reads at once, in the same round of its loop, and sends the
grant and what it has read together. Nobody reads for anybody else: each needs the rights to what it reads.
"""

from __future__ import annotations

from typing import Any, Final

from redis_locks.attempts import Attempt
from redis_locks.drivers.base import Answered, LinkBroken, PromptDriver, PromptLink
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.wire import pack_words
from redis_locks.keys import turn_key

_BLPOP: Final = b"*3\r\n$5\r\nBLPOP\r\n"


def is_due(driver: PromptDriver, link: PromptLink, seconds: float) -> bool:
    """Whether who has something to read is to wait so for `seconds`. Raises LinkBroken."""
    if not (driver.parks and driver.skips_replies and driver.reply_timeout > 2 * seconds):
        return False
    driver.parks = link.listens_parked()
    return driver.parks


def ask(
    driver: PromptDriver,
    link: PromptLink,
    attempt: Attempt,
    token: bytes,
    question: bytes,
    seconds: float,
) -> tuple[bytes | None, list[Any] | None]:
    """Ask what has no reply, and wait for a message; return that and what was read since it was sent.

    No message: none came for `seconds`. Nothing read: that has to be asked for yet. Raises LinkBroken.
    """
    request = attempt.request
    key = turn_key(request.keys[0], token)
    turn = _BLPOP + pack_words((key, b"%.3f" % seconds))
    question = b"".join((question, turn, *request.reads))
    came, *read = link.exchange(question, 1 + len(request.reads), attempt.meanwhile, token)
    if came is not None and not (isinstance(came, list) and came[0] == key):
        # We may not wait so, or our question was answered; then there are more replies than we know of.
        link.forsake()
        if not isinstance(came, ErrorReply):
            raise Answered(f"{came!r} answers what was to have no reply")
        driver.parks = not came.text.startswith(("NOPERM", "ERR", "WRONGTYPE"))
        raise LinkBroken(came.text)
    message = link.message_for(request.token, 0)
    # What was read before the lock was held must not be believed: when our turn did not come, or something else
    # than the grant was told first.
    granted = came is not None and message is not None and message.split(b" ", 2)[1] == came[1]
    return message, read if granted else None
