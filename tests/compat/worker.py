"""A real process that uses one kind of lock.

``worker.py URL NAME KIND count ROUNDS`` reads and writes a counter inside the lock, and
says "done".
``worker.py URL NAME KIND hold`` acquires, says "held" and waits to be killed or told to go.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
os.environ["REDIS_LOCKS_TEST_URL"] = sys.argv[1]
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

import redis  # noqa: E402
import redis.asyncio as aioredis  # noqa: E402
from django.core.cache import cache  # noqa: E402

from redis_locks import compat  # noqa: E402


def say(what: str) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def make(kind: str, url: str, name: str) -> Any:
    if kind == "django-redis":
        cache.make_key = lambda key, version=None: key
        cache.client.make_key = cache.make_key
        return cache.lock(name, timeout=30, sleep=0.01)
    lock_class = compat.Lock if kind == "compat" else None
    return redis.Redis.from_url(url).lock(name, timeout=30, sleep=0.01, lock_class=lock_class)


def count(url: str, name: str, kind: str, rounds: int) -> None:
    client = redis.Redis.from_url(url)
    lock = make(kind, url, name)
    for _ in range(rounds):
        with lock:
            value = int(client.get(f"count:{name}") or 0)
            client.set(f"count:{name}", value + 1)


async def async_count(url: str, name: str, rounds: int) -> None:
    client = aioredis.Redis.from_url(url)

    async def one() -> None:
        lock = client.lock(name, timeout=30, lock_class=compat.AsyncLock)
        for _ in range(rounds // 2):
            async with lock:
                value = int(await client.get(f"count:{name}") or 0)
                await client.set(f"count:{name}", value + 1)

    # Two tasks with a lock object each: one thread's token must not be taken for another's.
    await asyncio.gather(one(), one())
    await client.aclose()


def main(url: str, name: str, kind: str, do: str, rounds: str = "0") -> None:
    if do == "hold":
        lock = make(kind, url, name)
        with lock:
            say("held")
            sys.stdin.readline()
        return
    if kind == "compat-async":
        asyncio.run(async_count(url, name, int(rounds)))
    else:
        count(url, name, kind, int(rounds))
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
