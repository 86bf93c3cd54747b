"""Many transfers over a connection that loses replies: how many were acknowledged, and how many were made."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from demo_project.bank.accounts import FIELD, account_key
from demo_project.bank.processes import check_actors
from demo_project.bank.proxy import proxy_for
from redis_locks import LockError, optimistic

from .experiment import Problem

TRANSFERS = 60
LOST_EVERY = 4

LOST_REPLIES = Problem(
    "replies",
    "Lose many replies",
    f"{TRANSFERS} transfers of a cent, of which every fourth loses its reply, by redis-py's transaction() and by optimistic.",
)


@dataclass(frozen=True)
class Count:
    """What one way to move money did: transfers that it said were made, and those that the account shows."""

    label: str
    acknowledged: int
    moved: int

    @property
    def is_right(self) -> bool:
        """Whether each transfer that was acknowledged was made once."""
        return self.acknowledged == self.moved


def count_lost_replies(conn: redis.Redis) -> list[Count]:
    """Make the transfers in both ways; blocks for some seconds.

    Raises:
        ActorFailed: The site ends.
        redis.RedisError: The server could not be asked.
    """
    return [
        _count(conn, "redis-py's transaction()", by_transaction),
        _count(conn, "optimistic", by_optimistic),
    ]


def by_transaction(client: redis.Redis, account: str) -> None:
    """Move a cent as redis-py's documentation shows: WATCH, read, write, and again if anything went wrong."""

    def move(pipe: Any) -> None:
        cents = int(pipe.hget(account, FIELD))
        if cents < 1:
            raise ValueError(account)
        pipe.multi()
        pipe.hincrby(account, FIELD, -1)

    client.transaction(move, account)


def by_optimistic(client: redis.Redis, account: str) -> None:
    """Move a cent by the library, which asks whether it was moved before it tries again."""

    def move(pipe: Any) -> None:
        (cents,) = pipe.read
        if int(cents) < 1:
            raise ValueError(account)
        pipe.multi()
        pipe.hincrby(account, FIELD, -1)

    optimistic.run(move, account, read=[("HGET", account, FIELD)], using=client)


def _count(conn: redis.Redis, label: str, move: Callable[[redis.Redis, str], None]) -> Count:
    acknowledged = 0
    with _account(conn) as account:
        with proxy_for(conn) as (proxy, url):
            client = redis.Redis.from_url(url)
            proxy.lose_replies(b"HINCRBY", every=LOST_EVERY)
            for _ in range(TRANSFERS):
                check_actors()
                try:
                    move(client, account)
                except (redis.RedisError, LockError):
                    continue  # the caller does not know
                acknowledged += 1
        left = int(conn.hget(account, FIELD) or 0)
    return Count(label, acknowledged, 10 * TRANSFERS - left)


@contextmanager
def _account(conn: redis.Redis) -> Iterator[str]:
    account = account_key(f"replies-{uuid.uuid4().hex[:8]}")
    conn.hset(account, FIELD, 10 * TRANSFERS)
    try:
        yield account
    finally:
        conn.delete(account)
