"""Commands that ride with an acquire: what a holder wants to know first costs no round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.wire import pack_command

Word = str | bytes | int | float
Command = Sequence[Word]

# They may run before the lock is held, so they must change nothing.
READ_ONLY: Final = frozenset(
    [
        "BITCOUNT",
        "BITPOS",
        "EXISTS",
        "GEODIST",
        "GEOHASH",
        "GEOPOS",
        "GEOSEARCH",
        "GET",
        "GETBIT",
        "GETRANGE",
        "HEXISTS",
        "HGET",
        "HGETALL",
        "HKEYS",
        "HLEN",
        "HMGET",
        "HSTRLEN",
        "HVALS",
        "LINDEX",
        "LLEN",
        "LPOS",
        "LRANGE",
        "MGET",
        "PFCOUNT",
        "PTTL",
        "SCARD",
        "SDIFF",
        "SINTER",
        "SISMEMBER",
        "SMEMBERS",
        "SMISMEMBER",
        "STRLEN",
        "SUNION",
        "TTL",
        "TYPE",
        "XINFO",
        "XLEN",
        "XRANGE",
        "XREVRANGE",
        "ZCARD",
        "ZCOUNT",
        "ZLEXCOUNT",
        "ZMSCORE",
        "ZRANGE",
        "ZRANK",
        "ZREVRANK",
        "ZSCORE",
    ]
)


def packed_reads(commands: Iterable[Command]) -> tuple[bytes, ...]:
    """Return commands such as ``("HGET", "account:1", "money")``, ready to send.

    Raises:
        TypeError: A command is not a list or tuple of words, or a word has no text of its own.
        ValueError: A command is not one that only reads.
    """
    return tuple([pack_command(*_words(command)) for command in commands])


def _words(command: object) -> list[bytes]:
    if isinstance(command, str | bytes) or not isinstance(command, Sequence) or not command:
        msg = f'read must be a list of commands such as ("GET", "key"), not of {command!r}'
        raise TypeError(msg)
    name = command[0].decode() if isinstance(command[0], bytes) else str(command[0])
    if name.upper() not in READ_ONLY:
        msg = (
            f"read takes only commands that change nothing, not {command[0]!r}: it may run before "
            "the lock is held"
        )
        raise ValueError(msg)
    return [_word(word) for word in command]


def _word(word: object) -> bytes:
    if isinstance(word, bytes):
        return word
    if isinstance(word, str | int | float) and not isinstance(word, bool):
        return str(word).encode()
    msg = f"a word of a command in read must be a string, bytes or a number, not {word!r}"
    raise TypeError(msg)


_ELSEWHERE: Final = ("MOVED ", "ASK ", "CROSSSLOT")


def checked(replies: list[Any]) -> list[Any]:
    """Return the replies.

    Raises:
        ValueError: A key is in another slot of the cluster than the lock.
        ResponseError: The server refused a command.
    """
    for reply in replies:
        if isinstance(reply, ErrorReply):
            if reply.text.startswith(_ELSEWHERE):
                msg = (
                    "read= reaches only keys in the cluster slot of the lock, and not these "
                    f"({reply.text}): read when the lock is held"
                )
                raise ValueError(msg)
            # Not above: redis-py is imported when a connection is, for start-up's sake.
            from redis.exceptions import ResponseError

            raise ResponseError(reply.text)
    return replies
