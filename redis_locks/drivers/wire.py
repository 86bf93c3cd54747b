"""Pack commands in RESP: redis-py's packer, which takes any command, costs 4x as much."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from redis_locks.drivers.base import Arg, Call
from redis_locks.keys import MOST_KEPT
from redis_locks.scripts import Script

_LONGEST_KEPT = 256
"""Bytes, or characters, of the longest argument that is kept packed."""


def pack_call(script: Script, call: Call, *, whole: bool = False) -> bytes:
    """Return EVALSHA of the script in RESP, or EVAL with its text if `whole`."""
    keys, argv = call
    packed = [
        b"*%d\r\n" % (3 + len(keys) + len(argv)),
        _packed_start(script, whole),
        _packed_keys(keys) if len(keys) <= MOST_KEPT else _pack_keys(keys),
    ]
    # The first argument is the token, new each time; the others mostly come back. Not the long
    # ones: what a user commits may be of any size, and would fill the memory of the process.
    packed.append(_packed_arg(argv[0]))
    packed += [
        _packed_again(arg)
        if isinstance(arg, int) or len(arg) <= _LONGEST_KEPT
        else _packed_arg(arg)
        for arg in argv[1:]
    ]
    return b"".join(packed)


def pack_command(*parts: bytes) -> bytes:
    """Return a command in RESP."""
    return b"*%d\r\n%b" % (len(parts), _packed(parts))


def _packed_arg(arg: Arg) -> bytes:
    if isinstance(arg, str):
        arg = arg.encode()
    elif isinstance(arg, int):
        arg = b"%d" % arg
    return b"$%d\r\n%b\r\n" % (len(arg), arg)


_packed_again = lru_cache(maxsize=1024)(_packed_arg)


def _packed(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(map(_packed_arg, parts))


@lru_cache(maxsize=64)
def _packed_start(script: Script, whole: bool) -> bytes:  # noqa: FBT001 - private
    return _packed((b"EVAL", script.text) if whole else (b"EVALSHA", script.sha))


def _pack_keys(keys: Sequence[bytes]) -> bytes:
    return _packed((b"%d" % len(keys), *keys))


_packed_keys = lru_cache(maxsize=4096)(_pack_keys)
