"""Pack script calls for the wire: redis-py's packer, which takes any command, costs 4x as much."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from redis_locks.drivers.base import Arg, Call
from redis_locks.scripts import Script


def pack_call(script: Script, call: Call, *, whole: bool = False) -> bytes:
    """Return EVALSHA of the script in RESP, or EVAL with its text if `whole`."""
    keys, argv = call
    start = _packed_start(script, whole)
    packed = [b"*%d\r\n" % (3 + len(keys) + len(argv)), start, _packed_keys(keys)]
    for arg in argv:
        data = _encoded(arg)
        packed.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(packed)


def _encoded(arg: Arg) -> bytes:
    if isinstance(arg, str):
        return arg.encode()
    return arg if isinstance(arg, bytes) else b"%d" % arg


def _packed(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


@lru_cache(maxsize=64)
def _packed_start(script: Script, whole: bool) -> bytes:  # noqa: FBT001 - private
    return _packed((b"EVAL", script.text) if whole else (b"EVALSHA", script.sha))


@lru_cache(maxsize=4096)
def _packed_keys(keys: Sequence[bytes]) -> bytes:
    return _packed((b"%d" % len(keys), *keys))
