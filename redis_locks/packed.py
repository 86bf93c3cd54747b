"""The calls of nearly every acquire, release and commit, packed but for what is new each time.

To pack them anew, with the functions of `store` and `wire` that pack any call, takes a twelfth of what Python does for a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from redis_locks import scripts
from redis_locks.drivers.base import Arg
from redis_locks.drivers.wire import SIZES, pack_arguments, pack_start, pack_words
from redis_locks.keys import MOST_KEPT, Keys
from redis_locks.scripts import Script

Rest = tuple[Arg, ...]
"""The arguments of a call after its token."""

_MOST_RESTS: Final = 1024

_rests: dict[Rest, bytes] = {}
"""Packed: the same for all locks that are asked for alike."""


class Packed:
    """How the calls that acquire, release and commit for the locks of `keys` start: each packed when it is first needed."""

    __slots__ = ("_acquire", "_commit", "_release", "keys")

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._acquire = self._release = b""
        self._commit = 0, b""

    def acquire(self, token: bytes, rest: Rest) -> bytes:
        """Return the call that acquires, with these arguments after the token."""
        start = self._acquire
        if not start:
            start = self._acquire = self._start(scripts.ACQUIRE, 1 + len(rest))
        packed = _rests.get(rest)
        if packed is None:
            if len(_rests) >= _MOST_RESTS:
                _rests.clear()
            packed = _rests[rest] = pack_arguments(rest)
        return b"\r\n".join((start, SIZES[len(token)], token, packed))

    def release(self, token: bytes) -> bytes:
        """Return the call that releases."""
        start = self._release
        if not start:
            start = self._release = self._start(scripts.RELEASE, 1)
        return b"\r\n".join((start, SIZES[len(token)], token, b""))

    def commit(self, words: Sequence[bytes]) -> bytes:
        """Return the call that commits, with these arguments."""
        number, start = self._commit
        if number != len(words):  # mostly as many as the last time
            number = len(words)
            start = self._start(scripts.COMMIT, number)
            self._commit = number, start
        return b"\r\n".join((start, pack_words(words)))

    def _start(self, script: Script, arguments: int) -> bytes:
        """Return all before so many arguments, but for the last end of a line."""
        return pack_start(script, self.keys, arguments).removesuffix(b"\r\n")


def kept(keys: Keys) -> Packed | None:
    """Return the packed calls for the locks of `keys`, which are kept; None for a large set, of which nothing is."""
    return _kept(keys) if len(keys) <= MOST_KEPT else None


def packed(keys: Keys) -> Packed:
    """Return the packed calls for the locks of `keys`."""
    return kept(keys) or Packed(keys)


_kept = lru_cache(maxsize=4096)(Packed)
