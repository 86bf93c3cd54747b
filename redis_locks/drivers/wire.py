"""Pack commands in RESP: redis-py's packer, which takes any command, costs 4x as much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from redis_locks.drivers.base import Arg, Call
from redis_locks.scripts import Script
from redis_locks.values.keys import MOST_KEPT

_SHORT: Final = 256
SIZES: Final = tuple(b"$%d" % size for size in range(_SHORT))
"""The lines before short arguments: to look them up, and to join lines, takes a fifth of formatting."""

IN_BYTES: Final[Mapping[type, Callable[[Any], bytes]]] = {
    bytes: bytes.__bytes__,
    int: b"%d".__mod__,
    str: str.encode,
}
"""What turns words of the usual types into bytes: to ask `isinstance` for each takes twice as long."""


def pack_call(script: Script, call: Call, *, whole: bool = False) -> bytes:
    """Return EVALSHA of the script in RESP, or EVAL with its text if `whole`."""
    keys, argv = call
    start = pack_start if whole or len(keys) > MOST_KEPT else _packed_start
    if not script.repeats:
        return start(script, keys, len(argv), whole) + pack_arguments(argv)
    # The first argument is the token, new each time.
    token = str(argv[0]).encode()
    return b"%b$%d\r\n%b\r\n%b" % (
        start(script, keys, len(argv), whole),
        len(token),
        token,
        _packed_again(argv[1:]),
    )


def pack_command(*parts: bytes | str) -> bytes:
    """Return a command in RESP."""
    return b"*%d\r\n%b" % (len(parts), pack_arguments(parts))


def pack_arguments(parts: Iterable[Arg]) -> bytes:
    """Return arguments as they are in a packed call."""
    in_bytes = IN_BYTES.get
    return pack_words([in_bytes(type(part), to_bytes)(part) for part in parts])


def to_bytes(part: Arg) -> bytes:
    """Return an argument of any type as bytes; of the usual ones, those of `IN_BYTES`, in a longer way."""
    if isinstance(part, str):
        return part.encode()
    return b"%d" % part if isinstance(part, int) else bytes(part)


def pack_words(words: Iterable[bytes]) -> bytes:
    """Return arguments that are bytes already as they are in a packed call."""
    lines: list[bytes] = []
    add, sizes = lines.append, SIZES
    for word in words:
        size = len(word)
        add(sizes[size] if size < _SHORT else b"$%d" % size)
        add(word)
    add(b"")
    return b"\r\n".join(lines)


_packed_again = lru_cache(maxsize=256)(pack_arguments)


def pack_start(
    script: Script,
    keys: Sequence[bytes],
    arguments: int,
    whole: bool = False,  # noqa: FBT001, FBT002 - see `pack_call`
) -> bytes:
    """Return all of a call that comes before its arguments, of which there are so many; `whole` as in `pack_call`."""
    call = (b"EVAL", script.text) if whole else (b"EVALSHA", script.sha)
    return b"*%d\r\n%b" % (3 + len(keys) + arguments, pack_arguments((*call, len(keys), *keys)))


_packed_start = lru_cache(maxsize=8192)(pack_start)
