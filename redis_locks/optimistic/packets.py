"""The packets of a transaction: WATCH with what is read, and MULTI .. EXEC with what was queued."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from redis_locks.drivers.resp import pack

MULTI: Final = pack(("MULTI",))
EXEC: Final = pack(("EXEC",))
UNWATCH: Final = pack(("UNWATCH",))


def bulk(text: str) -> bytes:
    """Return a word in RESP."""
    word = text.encode()
    return b"$%d\r\n%b\r\n" % (len(word), word)


def watching(keys: int) -> bytes:
    """Return the start of a WATCH of so many keys; they follow, each as `bulk`."""
    return b"*%d\r\n$5\r\nWATCH\r\n" % (keys + 1)


def setting(marker: bytes, text: str, memory_ms: int) -> bytes:
    """Return the SET of the operation's key, which is given as `bulk`.

    It ends after so many milliseconds.
    """
    return b"*5\r\n$3\r\nSET\r\n%b%b%b" % (marker, bulk(text), _expiry(memory_ms))


@lru_cache(maxsize=64)
def _expiry(milliseconds: int) -> bytes:
    """Return the end of a SET."""
    return b"$2\r\nPX\r\n" + bulk(str(milliseconds))


def getting(marker: bytes) -> bytes:
    """Return the GET of the operation's key, which is given as `bulk`."""
    return b"*2\r\n$3\r\nGET\r\n" + marker


_USUAL: Final = frozenset({int, str})
"""What nearly every word of a command is, exactly: a `bool` is neither, and no word."""


def pack_command(words: tuple[Any, ...]) -> bytes:
    """Return a command of the user's in RESP, as redis-py sends it. Raises redis-py's DataError."""
    try:
        if _USUAL.issuperset(map(type, words)) and " " not in words[0]:
            return pack(tuple(map(str, words)))
        name, *others = words
        return pack((*name.split(), *map(_spelled, others)))  # "XINFO STREAM" are two words
    except (AttributeError, TypeError) as error:
        from redis.exceptions import DataError  # not above: who only decorates needs no redis-py

        raise DataError(str(error)) from None


def _spelled(word: Any) -> Any:
    """Return a number as text, and a buffer as bytes.

    `pack` refuses what is neither, nor text, nor bytes.
    """
    if type(word) is int:
        return str(word)
    if type(word) is float:
        return repr(word)
    return bytes(word) if isinstance(word, bytearray | memoryview) else word
