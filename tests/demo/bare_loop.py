"""Transfers in a loop that shares no code with the demo: ``python -m tests.demo.bare_loop URL METHOD SECONDS``.

For each line of its input it prints how many transfers were made in how many seconds, and whether
the money is right.
"""

from __future__ import annotations

import random
import sys
import time
import uuid

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
    """Move a cent again and again for each line that comes, and print what came of it."""
    client = redis.Redis.from_url(url)
    accounts = ["bare:1", "bare:2"]
    for account in accounts:
        client.hset(account, "money", 10_000)
    move = METHODS[method](client, url)
    move(*accounts, f"bare:{uuid.uuid4().hex}")
    for _ in sys.stdin:
        run = uuid.uuid4().hex
        done, started = 0, time.perf_counter()
        while (now := time.perf_counter()) < started + seconds:
            sender, recipient = random.sample(accounts, 2)
            done += bool(move(sender, recipient, f"bare:{run}:{done}"))
        right = sum(int(client.hget(account, "money")) for account in accounts) == 20_000
        print(done, now - started, right, flush=True)  # noqa: T201


def reads(sender, recipient, marker):
    return [("EXISTS", marker), ("HGET", sender, "money"), ("HGET", recipient, "money")]


def writes(sender, recipient, marker):
    return [
        ("HINCRBY", sender, "money", -1),
        ("HINCRBY", recipient, "money", 1),
        ("SET", marker, 1, "EX", 5),
    ]


def may_move(answers):
    done, sent, received = answers
    return not done and int(sent) >= 1 and received is not None


def scripted(client, _url):
    script = client.register_script(SCRIPT)
    return lambda *names: script(keys=names, args=[1])


def watching(client, _url):
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


def locking(_client, url):
    import django
    from django.conf import settings

    settings.configure(INSTALLED_APPS=["redis_locks"], REDIS_LOCKS={"CONNECTION": url})
    django.setup()
    from redis_locks import redis_lock

    def move(*names):
        with redis_lock(*names[:2], wait=10, read=reads(*names)) as hold:
            if not may_move(hold.read):
                return False
            hold.commit(writes(*names))
            return True

    return move


METHODS = {
    "script": scripted,
    "watch": watching,
    "redis_lock": locking,
}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
