"""One process of the money test: makes its share of transfers once each, whatever happens.

What became of a transfer is noted at once, over a connection that loses nothing. A process that
takes over from a killed one begins after the last note: with a transfer that may have been made
already, and is repeated under its own id.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import redis

WAIT = 0.1
"""Seconds to wait for a lock; then another transfer is made first."""
LEASE = 2.0
"""Seconds for which a killed holder may stand in the way."""

MOVED = 1
REFUSED = 2
OUTCOMES = "money-outcomes"
"""The hash of transfers that are done, by number, and how each ended."""
# Rows are slow, and a lock of the book whose holder was killed, or did not hear that it got it,
# blocks for its lease; so does redis-py's.
SLOW = ("rows_", "book_", "redis_py")
_SHARE_OF_THE_SLOW = 0.1


@dataclass(frozen=True)
class Transfer:
    """One of the planned transfers."""

    number: int
    strategy: str
    sender: str
    recipient: str
    cents: int


def account_names(strategy: str, count: int) -> list[str]:
    """The accounts of a strategy: ways that exclude by different locks must not share them."""
    return [f"money-{strategy}-{number}" for number in range(count)]


def plan(seed: int, count: int, strategies: list[str], accounts: int, most: int) -> list[Transfer]:
    """The same transfers in each process; a tenth as many by a slow strategy as by another one."""
    chance = random.Random(seed)
    quick = [float(not name.startswith(SLOW)) for name in strategies]
    all_of_them = [weight or _SHARE_OF_THE_SLOW for weight in quick]
    made = []
    for number in range(count):
        # None of the slow ones at the end, when there is nothing else to do until a lease has
        # ended.
        weights = all_of_them if number < 2 * count / 3 else quick
        (strategy,) = chance.choices(strategies, weights)
        sender, recipient = chance.sample(account_names(strategy, accounts), 2)
        made.append(Transfer(number, strategy, sender, recipient, chance.randint(1, most)))
    return made


def work(orders: dict[str, Any]) -> None:
    """Make the transfers of one share; the main function of a process."""
    logging.disable()
    _set_up(orders)
    from django_redis import get_redis_connection

    conn = get_redis_connection("default")
    with redis.Redis.from_url(orders["ledger"]) as ledger:
        done = set(map(int, ledger.hkeys(OUTCOMES)))
        mine = deque(
            transfer
            for transfer in plan(*orders["plan"])
            if transfer.number % orders["shares"] == orders["share"] and transfer.number not in done
        )
        while mine:
            transfer = mine.popleft()
            if outcome := _make(conn, transfer):
                ledger.hset(OUTCOMES, transfer.number, outcome)
            else:
                mine.append(transfer)


def _make(conn: Any, transfer: Transfer) -> int:
    """Make a transfer; 0 if it must be repeated."""
    from demo_project.bank.accounts import InsufficientFunds, TooMuchContention
    from demo_project.bank.strategies import transfer_funds
    from redis_locks import LockError

    try:
        transfer_funds(
            conn,
            transfer.sender,
            transfer.recipient,
            transfer.cents,
            strategy=transfer.strategy,
            operation_id=f"money-{transfer.number}",
        )
    except InsufficientFunds:
        return REFUSED
    except (TooMuchContention, LockError, redis.RedisError):
        # Somebody died with the lock, or a reply was lost: nobody knows whether the money was
        # moved.
        return 0
    return MOVED


def _set_up(orders: dict[str, Any]) -> None:
    import django
    from django.conf import settings

    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": orders["url"]}
    settings.configure(
        CACHES={"default": cache},
        REDIS_LOCKS={"CONNECTION": "default", "LEASE": LEASE},
        DATABASES={"default": orders["database"]},
        INSTALLED_APPS=["demo_project.rows"],
    )
    django.setup()
    from demo_project.bank import payment, transfers
    from demo_project.bank.strategies import STRATEGIES
    from tests.support.benchmark import book_locks

    payment.WAIT_SECONDS = WAIT
    transfers.LEASE_SECONDS = LEASE
    for name, lock in (("book_setnx", book_locks.setnx_lock), ("book_lua", book_locks.lua_lock)):
        shorter = partial(transfers.book_lock, partial(lock, lease=LEASE))
        STRATEGIES[name] = replace(STRATEGIES[name], transfer=shorter)
