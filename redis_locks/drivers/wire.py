"""Pack commands in RESP: redis-py's packer, which takes any command, costs 4x as much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from redis_locks.drivers.base import Arg, Call
from redis_locks.keys import MOST_KEPT
from redis_locks.scripts import Script

_SHORT: Final = 256
SIZES: Final = tuple(b"$%d\r\n" % size for size in range(_SHORT))
"""The lines before short arguments: to look them up, and to join bytes, takes a fifth of formatting."""


def pack_call(script: Script, call: Call, *, whole: bool = False) -> bytes:
    """Return EVALSHA of the script in RESP, or EVAL with its text if `whole`."""
    keys, argv = call
    start = pack_start if whole or len(keys) > MOST_KEPT else _packed_start
    # The first argument is the token, new each time.
    rest = (_packed_again if script.repeats else pack_arguments)(argv[1:])
    return start(script, keys, len(argv), whole) + pack_arguments(argv[:1]) + rest


def pack_command(*parts: bytes | str) -> bytes:
    """Return a command in RESP."""
    return b"*%d\r\n%b" % (len(parts), pack_arguments(parts))


def pack_arguments(parts: Iterable[Arg]) -> bytes:
    """Return arguments as they are in a packed call."""
    packed: list[bytes] = []
    for part in parts:
        if isinstance(part, str):
            word = part.encode()
        elif isinstance(part, int):
            word = b"%d" % part
        else:
            word = bytes(part)  # redis-py leaves a memoryview as it is
        size = len(word)
        packed += (SIZES[size] if size < _SHORT else b"$%d\r\n" % size, word, b"\r\n")
    return b"".join(packed)


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
