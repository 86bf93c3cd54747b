"""A worker that books transfers, a process of its own, which may be killed at any moment.

It reads its job as a line of JSON, then one operation a line, and says of each what it knows.
"""

from __future__ import annotations

import json
import sys

import redis

from demo_project.bank.payment import Order
from demo_project.bank.processes import read_job, say


def main() -> None:
    """Book what comes in, until there is no more."""
    import django
    from django.conf import settings

    job = read_job()
    settings.configure(REDIS_LOCKS={"CONNECTION": job["url"], "STATISTICS": False})
    django.setup()
    from demo_project.bank.accounts import TransferError
    from redis_locks import LockError

    from .entries import WAYS

    book = WAYS[job["way"]].book
    conn = redis.Redis.from_url(job["url"])
    say("ready")
    for line in sys.stdin:
        order = Order(**json.loads(line))
        try:
            is_new = book(conn, job["ledger"], order)
        except TransferError as error:
            say("refused", str(error))
        except (LockError, redis.RedisError) as error:
            say("unknown", type(error).__name__)
        else:
            say("booked" if is_new else "found")


if __name__ == "__main__":
    main()
