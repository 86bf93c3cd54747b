"""Autocompletion over a sorted set: with WATCH, as in the book, and simplified by a lock.

The book is "Redis in Action", chapter 6.

Names of a guild's members are lower-case letters. Two marks go around all names that begin with a
prefix: what lies between their places is the answer. Today's ZRANGEBYLEX needs no marks; this is
about several steps that belong together.
"""

from __future__ import annotations

import uuid
from typing import Any

import redis

from redis_locks import redis_lock

MOST = 10
AFTER_LETTERS = "{"
"""The character after "z": no name has it."""


def members_key(guild: str) -> str:
    """The key of a guild's members, which is the name of its lock, too."""
    return f"guild:{guild}"


def around(prefix: str) -> tuple[str, str]:
    """What sorts just before, and just after, all names that begin with `prefix`."""
    before = prefix[:-1] + chr(ord(prefix[-1]) - 1) + AFTER_LETTERS
    return before, prefix + AFTER_LETTERS


def join_guild(conn: redis.Redis, guild: str, member: str) -> None:
    """Add a member; like whoever completes names under the lock, with the lock."""
    with redis_lock(members_key(guild)):
        conn.zadd(members_key(guild), {member: 0})


def complete_with_watch(conn: redis.Redis, guild: str, prefix: str) -> list[str]:
    """Complete with marks of our own, which others leave out; start again after a change."""
    key = members_key(guild)
    # Others may look for the same prefix, so our marks need a name that nobody else has.
    start, end = (f"{mark}{uuid.uuid4()}" for mark in around(prefix))
    conn.zadd(key, {start: 0, end: 0})
    with conn.pipeline(transaction=True) as pipe:
        while True:
            try:
                pipe.watch(key)  # type: ignore[no-untyped-call]
                first, last = int(pipe.zrank(key, start)), int(pipe.zrank(key, end))  # type: ignore[arg-type]
                pipe.multi()
                pipe.zrem(key, start, end)
                pipe.zrange(key, first, min(first + MOST - 1, last - 2))
                found = pipe.execute()[-1]
            except redis.WatchError:
                continue
            break
    return [name.decode() for name in found if AFTER_LETTERS.encode() not in name]


def complete_with_lock(conn: redis.Redis, guild: str, prefix: str) -> list[str]:
    """Complete while nobody else changes the set: no other marks, no second try."""
    key = members_key(guild)
    start, end = around(prefix)
    with redis_lock(key):
        conn.zadd(key, {start: 0, end: 0})
        first, last = (int(conn.zrank(key, mark)) for mark in (start, end))  # type: ignore[arg-type]
        conn.zrem(key, start, end)
        found: list[Any] = conn.zrange(key, first, min(first + MOST, last - 1) - 1)
    return [name.decode() for name in found]
