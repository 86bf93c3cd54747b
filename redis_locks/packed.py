"""The calls of nearly every acquire and release, packed but for what is new each time.

To pack them anew, with the functions of `store` and `wire` that pack any call, takes a tenth of what a process does for a lock.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from redis_locks import scripts
from redis_locks.drivers.base import Arg
from redis_locks.drivers.wire import SIZES, pack_arguments, pack_start
from redis_locks.keys import MOST_KEPT, Keys

Rest = tuple[Arg, ...]
"""The arguments of a call after its token."""

_MOST_RESTS: Final = 1024

_rests: dict[Rest, bytes] = {}
"""Packed: the same for all locks that are asked for alike."""


class Packed:
    """How the calls that acquire and release the locks of `keys` start."""

    __slots__ = ("_acquire", "_release", "keys")

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        # Tokens and six more arguments; see `store.acquire_call`.
        self._acquire = pack_start(scripts.ACQUIRE, keys, 7)
        self._release = pack_start(scripts.RELEASE, keys, 1)

    def acquire(self, token: bytes, rest: Rest) -> bytes:
        """Return the call that acquires, with these arguments after the token."""
        packed = _rests.get(rest)
        if packed is None:
            if len(_rests) >= _MOST_RESTS:
                _rests.clear()
            packed = _rests[rest] = b"\r\n" + pack_arguments(rest)
        return self._acquire + SIZES[len(token)] + token + packed

    def release(self, token: bytes) -> bytes:
        """Return the call that releases."""
        return self._release + SIZES[len(token)] + token + b"\r\n"


def packed(keys: Keys) -> Packed:
    """Return the packed calls for the locks of `keys`."""
    return Packed(keys) if len(keys) > MOST_KEPT else _kept(keys)


_kept = lru_cache(maxsize=8192)(Packed)
