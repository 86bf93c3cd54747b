"""The only place beside the Lua prelude that spells Redis keys and channels.

All keys of one lock share one hash tag, the partition. So one script can touch them on a Cluster,
and several locks of one partition too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

MAX_NAME_BYTES = 512

QUEUED = "queued:"
"""What the names of the locks of queued tasks start with, so that they exclude no other locks."""

MAX_SET = 1000
"""Most locks that one hold can have."""

MOST_KEPT = 4
"""Most keys of one call that a process remembers; the keys of large sets would fill its memory."""

MANY_NAMES = 16
"""Most names of a set that waits to be counted; thousands of larger ones would fill the memory."""

Keys = tuple[bytes, ...]
"""What a script gets as KEYS: the partition's index, then the hash of each lock of a set."""

Group = tuple[tuple[str, ...], Keys]
"""The names of locks of one partition, and the KEYS of a script that takes them."""


class LockKeys(NamedTuple):
    """The Redis keys of one lock, beside its partition's index.

    `_lock.lua` says what is in them.
    """

    lock: bytes
    sharers: bytes


class ServerName(str):
    """A lock's name as it is on the server.

    REDIS_LOCKS["NAME_FUNCTION"] may give it another name than code does.
    """

    __slots__ = ()


class UnusableName(ValueError):
    """A text cannot name a lock.

    In a view a stranger may have written it, so the view answers 404.
    """


def validate_name(name: object, *, argument: str = "name") -> str:
    """Return `name` if it can name a lock: 1 to 512 bytes of UTF-8 without NUL.

    Raises:
        TypeError: It is not a string.
        UnusableName: It is empty, too long, holds NUL or cannot be encoded.
    """
    if (
        type(name) is str
        and name.isascii()
        and 0 < len(name) <= MAX_NAME_BYTES
        and "\0" not in name
    ):
        return name
    if not isinstance(name, str):
        msg = (
            f"{argument} must be a string, not {name!r} ({type(name).__name__}); use str(...) or "
            "an f-string"
        )
        raise TypeError(msg)
    if not isinstance(name, ServerName):
        name = name[:]  # the plain text: an Enum, which is equal to it, may be written otherwise
    if not name:
        msg = (
            f"{argument} must not be empty: an empty name would make unrelated code share one lock"
        )
        raise UnusableName(msg)
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        msg = (
            f"{argument} {name!r} cannot be encoded as UTF-8 ({error.reason}); remove the lone "
            "surrogate"
        )
        raise UnusableName(msg) from None
    if size > MAX_NAME_BYTES:
        msg = (
            f"{argument} {name[:40]!r}… has {size} bytes; the limit is {MAX_NAME_BYTES}: hash the "
            "long part"
        )
        raise UnusableName(msg)
    if "\0" in name:
        msg = f"{argument} {name!r} contains a NUL character; remove it"
        raise UnusableName(msg)
    return name


def validate_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return the names of a set of locks, each once, in the order given.

    Raises:
        TypeError: A name is not a string.
        ValueError: A name cannot name a lock, there is none, or there are more than 1000.
    """
    unique = tuple(dict.fromkeys(map(validate_name, names)))
    if not 1 <= len(unique) <= MAX_SET:
        msg = f"names must be 1 to {MAX_SET} names, not {len(unique)}"
        raise ValueError(msg)
    return unique


_ROW = re.compile(r"(\w+\.\w+@[^:]+):")


def partition_of(name: str, partitions: int, *, renames: bool = False) -> int:
    """Return the partition (0 to `partitions` - 1) a lock lives in.

    A row, "bank.Account@default:7", lives beside its model, "bank.Account@default". `renames`:
    whether something may stand before that, as NAME_FUNCTION says.
    """
    if partitions == 1:
        return 0
    row = _ROW.search(name) if renames else _ROW.match(name)
    return zlib.crc32((name[: row.end(1)] if row else name).encode()) % partitions


def lock_keys(prefix: str, partition: int, name: str) -> LockKeys:
    """Return the keys of the lock `name`."""
    return LockKeys(
        *(f"{prefix}{{{partition}}}:{kind}:{name}".encode() for kind in LockKeys._fields)
    )


def set_keys(prefix: str, partition: int, names: tuple[str, ...]) -> Keys:
    """Return KEYS of a script for the locks `names` of one partition."""
    spell = _kept_keys if len(names) < MOST_KEPT else spell_keys
    return spell(prefix, partition, names)


def spell_keys(prefix: str, partition: int, names: tuple[str, ...]) -> Keys:
    """Return what `set_keys` does, for who remembers it."""
    start = f"{prefix}{{{partition}}}:"
    return (f"{start}index".encode(), *[f"{start}lock:{name}".encode() for name in names])


_kept_keys = lru_cache(maxsize=4096)(spell_keys)


def index_key(prefix: str, partition: int) -> bytes:
    """Return the key of a partition's index of held and waited-for locks."""
    return f"{prefix}{{{partition}}}:index".encode()


def turn_key(index: bytes, token: bytes) -> bytes:
    """Return the key of the list that says that it is the turn of `token`.

    `index` is that of its partition.
    """
    return index[:-5] + b"turn:" + token  # in place of "index"


def operation_key(prefix: str, tag: str, operation_id: str) -> str:
    """Return the key that remembers an operation.

    It is in the Cluster slot of a watched key with this `hash_tag`.

    The hash tag stands first, so that braces in the id are only text. A watched key whose own
    braces keep it from being anybody's hash tag has no neighbour in its slot.
    """
    return f"{prefix}:operation:{{{tag}}}:{operation_id}"


def hash_tag(key: str) -> str:
    """Return the part of a key that decides its Cluster slot."""
    start = key.find("{")
    end = key.find("}", start + 1)
    return key[start + 1 : end] if -1 < start < end - 1 else key


def conflicts_key(prefix: str) -> str:
    """Return the key of the conflicts that optimistic transactions met, by watched key."""
    return f"{prefix}:conflicts"


def grant_channel(prefix: str, listener: str) -> str:
    """Return the channel on which one connection hears that a lock was handed to it."""
    return f"{prefix}:grants:{listener}"


def holder_channel(prefix: str, process: str) -> str:
    """Return the channel on which a process hears which of its holds somebody else ended."""
    return f"{prefix}:holders:{process}"


def partition_channel(index: bytes, listener: str) -> str:
    """Return the channel of one connection in the Cluster slot of a partition, given its index."""
    return f"{index.decode().removesuffix('index')}grants:{listener}"


class CompatKeys(NamedTuple):
    """The keys of one compat lock: redis-py's own, taken literally, and its companions."""

    lock: bytes
    queue: bytes
    claims: bytes
    grant: bytes


def compat_keys(key: bytes, *, cluster: bool) -> CompatKeys:
    """Return the keys of a compat lock.

    The companions begin with the key itself, so that an ACL's key pattern covers them too; on
    a Cluster they share its slot.

    Raises:
        ValueError: On a Cluster, no other key can be put into the slot of `key`.
    """
    start = key
    if cluster and not re.search(rb"^[^{]*\{[^}]+\}", key):
        if b"}" in key:
            msg = (
                f"name {key!r} has a brace but no hash tag: no second key shares its Cluster slot; "
                "remove the brace"
            )
            raise ValueError(msg)
        start = b"{%b}" % key
    # Not "queue": a process of an earlier version has a list there.
    return CompatKeys(
        key, *(start + b":redis_locks:" + part for part in (b"line", b"claims", b"grant"))
    )
