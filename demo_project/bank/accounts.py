"""Accounts of the bank: one Redis hash each, with the balance in whole cents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import redis

from .live.money import money

FIELD = "money"


class TransferError(Exception):
    """A transfer that was refused; no money has moved."""


class InvalidTransfer(TransferError):
    """The request itself makes no sense: amount or accounts are wrong."""


class UnknownAccount(TransferError):
    """The account does not exist."""


class InsufficientFunds(TransferError):
    """The sender's balance is lower than the amount."""

    @classmethod
    def of(cls, sender: str, balance: int, cents: int) -> Self:
        """The error that names the account and both amounts."""
        return cls(
            f"Account {sender!r} holds {money(balance)}, which is less than the {money(cents)} "
            "asked for."
        )


class TooMuchContention(TransferError):
    """Other transfers kept the accounts changing or locked for too long; you may try again."""


def account_key(account_id: str) -> str:
    """The Redis key of an account."""
    return f"account:{account_id}"


def seed_accounts(conn: redis.Redis, balances: Mapping[str, int]) -> None:
    """Create the accounts, or set them back, each with its balance in cents."""
    with conn.pipeline(transaction=True) as pipe:
        for account_id, cents in balances.items():
            pipe.delete(account_key(account_id))
            pipe.hset(account_key(account_id), FIELD, cents)
        pipe.execute()


def delete_accounts(conn: redis.Redis, account_ids: Iterable[str]) -> None:
    """Remove the accounts; unknown ones are ignored."""
    keys = [account_key(account_id) for account_id in account_ids]
    if keys:
        conn.delete(*keys)


def read_balances(conn: redis.Redis, account_ids: Iterable[str]) -> dict[str, int]:
    """Balances in cents as of one moment.

    Raises:
        UnknownAccount: One of the accounts does not exist.
    """
    wanted = list(account_ids)
    with conn.pipeline(transaction=True) as pipe:
        for account_id in wanted:
            pipe.hget(account_key(account_id), FIELD)
        replies = pipe.execute()
    return {
        account_id: parse_balance(account_id, reply)
        for account_id, reply in zip(wanted, replies, strict=True)
    }


@dataclass(frozen=True)
class Books:
    """Where accounts are kept: how to create, read and remove them there.

    The functions take a client of the Redis server, which accounts kept elsewhere have no use for.
    """

    seed: Callable[[redis.Redis, Mapping[str, int]], None]
    read: Callable[[redis.Redis, Iterable[str]], dict[str, int]]
    delete: Callable[[redis.Redis, Iterable[str]], None]


REDIS_BOOKS = Books(seed_accounts, read_balances, delete_accounts)


def parse_balance(account_id: str, reply: bytes | str | None) -> int:
    """A balance in cents from the server's reply, which is bytes or text depending on the client.

    Raises:
        UnknownAccount: The reply says that there is no such account.
    """
    if reply is None:
        raise UnknownAccount(f"There is no account {account_id!r}.")
    return int(reply)


def check_request(sender: object, recipient: object, cents: object) -> None:
    """Refuse a transfer that cannot be right, before anything is sent.

    Raises:
        InvalidTransfer: The amount is not a positive whole number of cents, or both accounts are
            the same.
    """
    # bool is an int in Python, and True cents is surely a mistake.
    if isinstance(cents, bool) or not isinstance(cents, int):
        raise InvalidTransfer(
            f"The amount must be a whole number of cents (int), not {cents!r} "
            f"({type(cents).__name__})."
        )
    if cents <= 0:
        raise InvalidTransfer(f"The amount must be at least 1 cent, not {cents}.")
    for role, account_id in (("sender", sender), ("recipient", recipient)):
        if not isinstance(account_id, str) or not account_id:
            raise InvalidTransfer(f"The {role} must be an account id (text), not {account_id!r}.")
    if sender == recipient:
        raise InvalidTransfer(f"Sender and recipient are the same account, {sender!r}.")


def check_funds(sender: str, balance: int, cents: int) -> None:
    """Refuse an overdraft.

    Raises:
        InsufficientFunds: The balance is lower than the amount.
    """
    if balance < cents:
        raise InsufficientFunds.of(sender, balance, cents)
