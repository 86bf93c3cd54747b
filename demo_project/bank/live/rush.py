"""Fifty customers pay one shop at the same moment, once for each of three ways to do it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import redis

from demo_project.bank.accounts import account_key, delete_accounts, read_balances, seed_accounts
from demo_project.bank.strategies import label_of

from .race import Transfer, race

CUSTOMERS = 50
PRICE = 1000
"""What each customer pays, in cents."""
STRATEGIES = ("redis_lock", "optimistic", "unprotected")


@dataclass(frozen=True)
class Till:
    """What the shop has after one rush, in cents, beside what its customers paid."""

    strategy: str
    paid: int
    received: int
    seconds: float
    retries: int
    waiters: int

    @property
    def label(self) -> str:
        """The strategy as the page names it."""
        return label_of(self.strategy)

    @property
    def missing_cents(self) -> int:
        """Money that customers paid and the shop does not have; below 0, money made up."""
        return self.paid - self.received


def run_rush(conn: redis.Redis) -> list[Till]:
    """Let all customers pay at once, by one strategy after the other; blocks until all have.

    Raises:
        LockBackendError: The locks' server could not be asked.
        redis.RedisError: The bank's server could not be asked.
    """
    return [_rush(conn, strategy) for strategy in STRATEGIES]


def _rush(conn: redis.Redis, strategy: str) -> Till:
    # Accounts of their own: nobody else moves this money.
    rush_id = uuid.uuid4().hex[:8]
    shop = f"shop-{rush_id}"
    customers = [f"customer-{rush_id}-{number}" for number in range(1, CUSTOMERS + 1)]
    seed_accounts(conn, {shop: 0, **dict.fromkeys(customers, PRICE)})
    try:
        transfers = [
            Transfer(f"customer {number}", customer, shop, PRICE, strategy)
            for number, customer in enumerate(customers, 1)
        ]
        seconds, runners, _ = race(conn, transfers, account_key(shop))
        balances = read_balances(conn, [shop, *customers])
    finally:
        delete_accounts(conn, [shop, *customers])
    received = balances.pop(shop)
    return Till(
        strategy,
        CUSTOMERS * PRICE - sum(balances.values()),
        received,
        seconds,
        sum(runner.retries for runner in runners),
        sum(bool(runner.waited_for) for runner in runners),
    )
