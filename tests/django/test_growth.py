"""What a lock takes of the memory of server and process."""

from __future__ import annotations

import gc
import sys

import pytest
import redis

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer

LABEL = "POST /accounts/1234/withdraw"


MOST_BYTES = 550
"""Valkey 9 takes 459, Redis 7.0 takes 516; a longer label takes more."""


def size(client: redis.Redis) -> int:
    """Bytes that all keys of the server take, by its own count."""
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=1000))


def test_a_held_lock_takes_little_of_the_server_s_memory(private_server: EmbeddedServer) -> None:
    locks = [
        Lock(f"account:{i}", using=private_server.url, lease=60, renew=False, label=LABEL)
        for i in range(300)  # too many for the index to be kept in its compact form
    ]
    with private_server.client() as client:
        holds = [lock.acquire(wait=0) for lock in locks]
        assert all(holds)
        assert size(client) / len(holds) <= MOST_BYTES
    for hold in holds:
        assert hold
        hold.release()


@pytest.mark.parametrize("acquires", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_acquires_leave_the_process_no_larger(name: str, acquires: int) -> None:
    def take(times: int) -> int:
        for i in range(times):
            with Lock(f"{name}:{i % 10}"):
                pass
        gc.collect()
        return sys.getallocatedblocks()

    def growth() -> int:
        before = take(200)
        return take(acquires) - before

    # Less than one object for ten acquires. A leak shows each time; what other threads of the process
    # begin to keep, and what coverage notes of lines it had not seen, does not.
    assert min(growth() for _ in range(3)) < acquires / 10
