"""Transfers in a loop, with redis-py and nothing of the project: ``python -m tests.demo.bare_loop URL METHOD SECONDS``.

Prints how many transfers were made in how many seconds, and whether the money is right.
"""

from __future__ import annotations

import random
import sys
import time

import redis

SCRIPT = """
local paid, amount = tonumber(redis.call("HGET", KEYS[1], "money")), tonumber(ARGV[1])
redis.call("EXISTS", KEYS[3])
redis.call("HGET", KEYS[2], "money")
if paid < amount then return 0 end
redis.call("HINCRBY", KEYS[1], "money", -amount)
redis.call("HINCRBY", KEYS[2], "money", amount)
redis.call("SET", KEYS[3], "1", "EX", 5)
return 1
"""


def main(url: str, method: str, seconds: float) -> None:
    """Move a cent again and again, and print what came of it."""
    client = redis.Redis.from_url(url)
    accounts = ["bare:1", "bare:2"]
    for account in accounts:
        client.hset(account, "money", 10_000)
    script = client.register_script(SCRIPT)
    move = {"script": lambda *names: script(keys=names, args=[1]), "watch": watching(client)}[
        method
    ]
    move(*accounts, "bare:warm")
    done, started = 0, time.perf_counter()
    while (now := time.perf_counter()) < started + seconds:
        sender, recipient = random.sample(accounts, 2)
        done += bool(move(sender, recipient, f"bare:done:{done}"))
    right = sum(int(client.hget(account, "money")) for account in accounts) == 20_000
    print(done, now - started, right)  # noqa: T201


def watching(client):
    def move(sender, recipient, marker):
        with client.pipeline() as pipe:
            pipe.watch(sender, recipient, marker)
            pipe.exists(marker)
            if int(pipe.hget(sender, "money")) < 1 or pipe.hget(recipient, "money") is None:
                return False
            pipe.multi()
            pipe.hincrby(sender, "money", -1)
            pipe.hincrby(recipient, "money", 1)
            pipe.set(marker, 1, ex=5)
            pipe.execute()
            return True

    return move


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
