"""The two locks of "Redis in Action", and the one that today's servers make possible.

The book has SETNX with EXPIRE, and Lua. Its author wished for a command that deletes a key with a
certain value. Redis 8.4 and Valkey 9.0 have one, so SET with NX and PX acquires, and that command
releases.

All ask again every millisecond until the lock is free. The listings' faults are left out. A lock
without an expiry is recognised by today's reply (-1), and replies are compared as bytes. The
release never hides an error of the block.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import redis

from redis_locks.exceptions import LockLost, LockTimeout

POLL_SECONDS = 0.001
NO_EXPIRY = -1

ACQUIRE = """
local lock, seconds, token = KEYS[1], ARGV[1], ARGV[2]
if redis.call("EXISTS", lock) == 1 then
  return 0
end
redis.call("SETEX", lock, seconds, token)
return 1
"""

RELEASE = """
local lock, token = KEYS[1], ARGV[1]
if redis.call("GET", lock) ~= token then
  return 0
end
return redis.call("DEL", lock)
"""


@dataclass
class BookHold:
    """One possession of a book lock, and how many times it had to ask before it got it."""

    token: bytes
    tries: int


COMPARE_AND_DELETE = {"DELEX": ("IFEQ",), "DELIFEQ": ()}
"""Commands that delete a key if it has a value: what stands between the key and the value."""

WHO_COMPARES = "Redis has DELEX from 8.4 on, Valkey has DELIFEQ from 9.0 on."


Try = Callable[[redis.Redis, str, bytes, int], bool]
Release = Callable[[redis.Redis, str, bytes], bool]


@contextmanager
def setnx_lock(
    conn: redis.Redis, name: str, wait: float = 10, lease: float = 10
) -> Iterator[BookHold]:
    """The book's first lock: SETNX and EXPIRE to acquire, WATCH and DEL to release.

    Raises:
        LockTimeout: Somebody else held the lock for ``wait`` seconds.
        LockLost: The lease ended before the block did.
    """
    with _hold(conn, name, wait, lease, try_setnx, release_setnx) as hold:
        yield hold


@contextmanager
def lua_lock(
    conn: redis.Redis, name: str, wait: float = 10, lease: float = 10
) -> Iterator[BookHold]:
    """The book's second lock: one script to acquire, one to release.

    Raises:
        LockTimeout: Somebody else held the lock for ``wait`` seconds.
        LockLost: The lease ended before the block did.
    """
    with _hold(conn, name, wait, lease, try_lua, release_lua) as hold:
        yield hold


@contextmanager
def two_commands_lock(
    conn: redis.Redis, name: str, wait: float = 10, lease: float = 10, *, command: str = "DELEX"
) -> Iterator[BookHold]:
    """Acquire by one command, SET with NX and PX; release by `command` of ``COMPARE_AND_DELETE``.

    Raises:
        LockTimeout: Somebody else held the lock for ``wait`` seconds.
        LockLost: The lease ended before the block did.
    """
    with _hold(conn, name, wait, lease, try_set, release_if_equal(command)) as hold:
        yield hold


@contextmanager
def _hold(
    conn: redis.Redis, name: str, wait: float, lease: float, attempt: Try, release: Release
) -> Iterator[BookHold]:
    key = f"lock:{name}"
    hold = _acquire(conn, key, wait, math.ceil(lease), attempt)
    try:
        yield hold
    except BaseException:
        # The block's own error is the one to report.
        with suppress(redis.RedisError):
            release(conn, key, hold.token)
        raise
    if not release(conn, key, hold.token):
        raise LockLost(f"The lock {key!r} was lost before its block ended.")


def _acquire(conn: redis.Redis, key: str, wait: float, seconds: int, attempt: Try) -> BookHold:
    hold = BookHold(uuid.uuid4().hex.encode(), 0)
    deadline = time.monotonic() + wait
    while True:
        hold.tries += 1
        if attempt(conn, key, hold.token, seconds):
            return hold
        if time.monotonic() >= deadline:
            raise LockTimeout(f"The lock {key!r} was not free within {wait} s.")
        time.sleep(POLL_SECONDS)


def try_setnx(conn: redis.Redis, key: str, token: bytes, seconds: int) -> bool:
    """Ask once for the lock; two round trips if it is free."""
    if conn.setnx(key, token):
        conn.expire(key, seconds)
        return True
    # A holder that died between its two commands left a lock without an end.
    if conn.ttl(key) == NO_EXPIRY:
        conn.expire(key, seconds)
    return False


def release_setnx(conn: redis.Redis, key: str, token: bytes) -> bool:
    """Delete the lock if the token is still in it."""
    with conn.pipeline(transaction=True) as pipe:
        while True:
            try:
                pipe.watch(key)  # type: ignore[no-untyped-call]
                found = pipe.get(key)
                if (found.encode() if isinstance(found, str) else found) != token:
                    return False
                pipe.multi()
                pipe.delete(key)
                pipe.execute()
            except redis.WatchError:
                # A waiter has set the missing expiry: look again.
                continue
            return True


def try_lua(conn: redis.Redis, key: str, token: bytes, seconds: int) -> bool:
    """Ask once for the lock, in one round trip."""
    return bool(conn.register_script(ACQUIRE)(keys=[key], args=[seconds, token]))


def release_lua(conn: redis.Redis, key: str, token: bytes) -> bool:
    """Delete the lock if the token is still in it."""
    return bool(conn.register_script(RELEASE)(keys=[key], args=[token]))


def compares_and_deletes(conn: redis.Redis) -> str:
    """Return the command of ``COMPARE_AND_DELETE`` that the server has; "" if it has none."""
    # In one word, as redis-py takes the reply to COMMAND for a list of all commands.
    known = conn.execute_command("COMMAND INFO", *COMPARE_AND_DELETE)  # type: ignore[no-untyped-call]
    return next((name for name, found in zip(COMPARE_AND_DELETE, known, strict=True) if found), "")


def try_set(conn: redis.Redis, key: str, token: bytes, seconds: int) -> bool:
    """Ask once for the lock, by one command."""
    return bool(conn.set(key, token, nx=True, px=seconds * 1000))


def release_if_equal(command: str) -> Release:
    """Return what deletes the lock by one command if the token is still in it."""
    words = COMPARE_AND_DELETE[command]

    def release(conn: redis.Redis, key: str, token: bytes) -> bool:
        return bool(conn.execute_command(command, key, *words, token))  # type: ignore[no-untyped-call]

    return release
