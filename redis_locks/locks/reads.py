"""Commands that ride with an acquire: what a holder wants to know first costs no round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from redis_locks.connections.colocation import require_beside
from redis_locks.drivers.resp import UNFINISHED, new_reader, pack
from redis_locks.locks.data_commands import Command, checked_commands, words_of
from redis_locks.values.keys import Keys

# They may run before the lock is held, so they must change nothing.
READ_ONLY: Final = frozenset({
    "BITCOUNT", "BITPOS", "EXISTS", "GEODIST", "GEOHASH", "GEOPOS", "GEOSEARCH", "GET", "GETBIT",
    "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSTRLEN", "HVALS",
    "LINDEX", "LLEN", "LPOS", "LRANGE", "MGET", "PFCOUNT", "PTTL", "SCARD", "SDIFF", "SINTER",
    "SISMEMBER", "SMEMBERS", "SMISMEMBER", "STRLEN", "SUNION", "TTL", "TYPE", "XINFO", "XLEN",
    "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANGE", "ZRANK", "ZREVRANK",
    "ZSCORE",
})  # fmt: skip


def packed_reads(commands: Iterable[Command]) -> tuple[bytes, ...]:
    """Return commands such as ``("HGET", "account:1", "money")``, ready to send.

    Raises:
        TypeError: A command is not a list or tuple of words, or a word has no text of its own.
        ValueError: A command is not one that only reads.
    """
    if commands == ():
        return ()
    packed = []
    for command in checked_commands(commands, "read"):
        try:
            packed.append(pack(tuple(_words(command))))
        except UnicodeError:
            msg = f"read must be a list of commands of UTF-8 text, or bytes, not of {command!r}"
            raise ValueError(msg) from None
    return tuple(packed)


def plain_reads(commands: Iterable[Command]) -> tuple[tuple[bytes | str, ...], ...]:
    """Return the commands as words, for another client to send. Raises as `packed_reads` does."""
    return tuple(tuple(_words(command)) for command in checked_commands(commands, "read"))


def _words(command: Command) -> list[bytes | str]:
    words = words_of(command, "read")
    name = words[0]
    if not (type(name) is str and name in READ_ONLY) and _spelled(name) not in READ_ONLY:
        msg = (
            f"read takes only commands that change nothing, not {command[0]!r}: it may run before "
            "the lock is held"
        )
        raise ValueError(msg)
    return words


def _spelled(name: bytes | str) -> str:
    """Return the name of a command as `READ_ONLY` has it."""
    return (name.decode() if isinstance(name, bytes) else name).upper()


_ALL_KEYS: Final = frozenset([b"EXISTS", b"MGET", b"PFCOUNT", b"SDIFF", b"SINTER", b"SUNION"])
"""Commands of which each word but the first is a key; of the others the second, of XINFO the third.
"""


def require_slot(commands: Iterable[bytes], keys: Keys) -> None:
    """Raise ValueError if a packed command reads outside the cluster slot of a lock's `keys`."""
    reader = new_reader()
    reader.feed(b"".join(commands))
    for words in iter(reader.gets, UNFINISHED):
        for key in keys_of_read(words):
            require_beside("read=", key, keys, "read when the lock is held")


def keys_of_read(words: Sequence[bytes]) -> Sequence[bytes]:
    """Return the keys that a command reads which `read=` takes."""
    name = words[0].upper()
    first = 2 if name == b"XINFO" else 1
    return words[first:] if name in _ALL_KEYS else words[first : first + 1]
