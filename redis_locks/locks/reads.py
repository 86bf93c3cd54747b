"""Commands that ride with an acquire: what a holder wants to know first costs no round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from redis_locks.connections.colocation import require_beside
from redis_locks.drivers.resp import ErrorReply, Parser, as_lists
from redis_locks.drivers.wire import pack_command
from redis_locks.values.keys import Keys

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
    if commands == ():
        return ()
    if not isinstance(commands, Iterable):
        msg = f'read must be a list of commands such as ("GET", "key"), not {commands!r}'
        raise TypeError(msg)
    packed = []
    for command in commands:
        # As `_words`, where there is nothing to be changed or refused.
        usual = (
            type(command) is tuple
            and _TEXT.issuperset(map(type, command))
            and command[:1]
            and command[0] in READ_ONLY
        )
        try:
            words: Sequence[Any] = command if usual else _words(command)
            packed.append(_packed(*words))
        except UnicodeError:
            msg = f"read must be a list of commands of UTF-8 text, or bytes, not of {command!r}"
            raise ValueError(msg) from None
    return tuple(packed)


_packed: Final = lru_cache(maxsize=256)(pack_command)
"""For hot data the same is read again and again."""


def _words(command: object) -> list[bytes | str]:
    if (
        not command
        or isinstance(command, str | bytes)
        or not isinstance(command, list | tuple | Sequence)
    ):
        msg = f'read must be a list of commands such as ("GET", "key"), not of {command!r}'
        raise TypeError(msg)
    name = command[0].decode() if isinstance(command[0], bytes) else str(command[0])
    if name.upper() not in READ_ONLY:
        msg = (
            f"read takes only commands that change nothing, not {command[0]!r}: it may run before "
            "the lock is held"
        )
        raise ValueError(msg)
    return [word if type(word) in _TEXT else _word(word) for word in command]


_TEXT: Final = frozenset((str, bytes))


def _word(word: object) -> bytes | str:
    if isinstance(word, bytes):
        return word
    if isinstance(word, str | int | float) and not isinstance(word, bool):
        return str(word)
    msg = f"a word of a command in read must be a string, bytes or a number, not {word!r}"
    raise TypeError(msg)


_ALL_KEYS: Final = frozenset([b"EXISTS", b"MGET", b"PFCOUNT", b"SDIFF", b"SINTER", b"SUNION"])
"""Those of which each word but the first is a key; of the others the second, of XINFO the third."""


def require_slot(commands: Iterable[bytes], keys: Keys) -> None:
    """Raise ValueError if a packed command reads what is not in the cluster slot of a lock's `keys`."""
    for words in Parser().feed(b"".join(commands)):
        name = words[0].upper()
        first = 2 if name == b"XINFO" else 1
        for key in words[first:] if name in _ALL_KEYS else words[first : first + 1]:
            require_beside("read=", key, keys, "read when the lock is held")


def checked(replies: list[Any]) -> list[Any]:
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
