"""The customers of the bank, what they start with, and what the page shows of their accounts."""

from __future__ import annotations

from dataclasses import dataclass

import redis

from demo_project.bank.accounts import (
    FIELD,
    UnknownAccount,
    account_key,
    parse_balance,
    seed_accounts,
)
from redis_locks import inspection
from redis_locks.inspection import LockInfo

CUSTOMERS = {"alice": 100_000, "bob": 50_000, "carol": 25_000}


@dataclass(frozen=True)
class AccountRow:
    """One account at one moment; `cents` is None if it is not open, `lock` if nobody locks it."""

    name: str
    cents: int | None
    lock: LockInfo | None

    @property
    def lock_name(self) -> str:
        """The name of the account's lock, which is its key too."""
        return account_key(self.name)


def open_accounts(conn: redis.Redis) -> None:
    """Open the customers' accounts, or set them back to what they start with."""
    seed_accounts(conn, CUSTOMERS)


def accounts(conn: redis.Redis) -> list[AccountRow]:
    """Return all accounts, balances as of one moment; blocks for two round trips.

    Raises:
        LockBackendError: The locks' server could not be asked.
        redis.RedisError: The bank's server could not be asked.
    """
    with conn.pipeline(transaction=True) as pipe:
        for name in CUSTOMERS:
            pipe.hget(account_key(name), FIELD)
        balances = pipe.execute()
    locks = {
        lock.name: lock
        for lock in inspection.locks(names=[account_key(name) for name in CUSTOMERS])
    }
    return [
        AccountRow(name, _cents(name, balance), locks.get(account_key(name)))
        for name, balance in zip(CUSTOMERS, balances, strict=True)
    ]


def total(rows: list[AccountRow]) -> int | None:
    """All money of the bank in cents, or None if an account is not open."""
    cents = [row.cents for row in rows if row.cents is not None]
    return sum(cents) if len(cents) == len(rows) else None


def _cents(name: str, balance: bytes | str | None) -> int | None:
    try:
        return parse_balance(name, balance)
    except UnknownAccount:
        return None
