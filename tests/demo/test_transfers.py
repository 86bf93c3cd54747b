"""Every way to move money: what it refuses, what it conserves, and that it happens once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection
from django.db.transaction import atomic

from demo_project.bank import payment, transfers
from demo_project.bank.accounts import (
    InsufficientFunds,
    TooMuchContention,
    UnknownAccount,
    account_key,
)
from demo_project.bank.payment import Order, Receipt, is_due
from demo_project.bank.strategies import STRATEGIES, Durability, transfer_funds
from demo_project.databases import LOCK_SECONDS, database
from demo_project.rows import books, row_transfers
from demo_project.rows.models import Operation
from redis_locks import LockLost, LockTimeout, StaleHold, inspection
from redis_locks.testing import assert_locked, assert_not_held_across_commit, assert_released, held
from tests.elsewhere import in_thread
from tests.support.benchmark import compares_and_deletes, lua_lock, setnx_lock, two_commands_lock

# The same code on another server need not be tested again.
ALL = [name for name, way in STRATEGIES.items() if way.durability is not Durability.AOF]
SAFE = [name for name in ALL if STRATEGIES[name].is_safe]
# By the names of their locks on Redis.
ROW_LOCKS = {"rows_redis": "bank_rows.Account@default:{}", "rows_fenced": "bank_rows.account:{}"}

pytestmark = pytest.mark.django_db(transaction=True)


class Bank:
    """Two accounts, of 10.00 and 5.00, and one way to move money between them."""

    def __init__(self, client: redis.Redis, name: str, strategy: str) -> None:
        self.pair = (f"{name}-a", f"{name}-b")
        self.client, self.strategy = client, strategy
        self.books = STRATEGIES[strategy].books

    def pay(self, cents: int, pair: tuple[Any, str] | None = None, **options: Any) -> Receipt:
        return transfer_funds(
            self.client, *(pair or self.pair), cents, strategy=self.strategy, **options
        )

    @property
    def balances(self) -> list[int]:
        return list(self.books.read(self.client, self.pair).values())

    def lock_name(self, number: int) -> str:
        """The lock of the first or the second account."""
        pattern = ROW_LOCKS.get(self.strategy, account_key("{}"))
        return pattern.format(self.pair[number])


@pytest.fixture
def bank(request: pytest.FixtureRequest, client: redis.Redis, name: str) -> Iterator[Bank]:
    """The parameter: the way; by default the one of the product."""
    found = Bank(client, name, getattr(request, "param", "redis_lock"))
    found.books.seed(client, dict(zip(found.pair, (1000, 500), strict=True)))
    yield found
    found.books.delete(client, found.pair)
    assert not Operation.objects.exists()


def by(*strategies: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bank", strategies, indirect=True)


@by(*ALL)
def test_a_transfer_moves_the_amount_or_is_refused_and_moves_nothing(bank: Bank) -> None:
    first, second = bank.pair
    for pair in ((first, "nobody"), ("nobody", first)):
        with pytest.raises(UnknownAccount, match="nobody"):
            bank.pay(1, pair)
    with pytest.raises(UnknownAccount, match="nobody"):
        bank.books.read(bank.client, ["nobody"])
    assert not bank.client.exists(account_key("nobody"))
    with pytest.raises(InsufficientFunds, match=r"holds 10\.00,.* 10\.01 asked"):
        bank.pay(1001)
    assert [1000, 500] == bank.balances
    assert bank.pay(300).moved
    assert [700, 800] == bank.balances
    bank.pay(800, (second, first))
    assert [1500, 0] == bank.balances


@by(*SAFE)
def test_repeating_an_operation_moves_the_money_once(bank: Bank, name: str) -> None:
    # 600 of 1000: the second call would be an overdraft if it looked at the balance first.
    assert bank.pay(600, operation_id=name).moved
    assert not bank.pay(600, operation_id=name).moved
    assert [400, 1100] == bank.balances


@by(*SAFE)
def test_money_is_conserved_when_many_transfer_at_once(bank: Bank) -> None:
    def trade(number: int) -> None:
        for _ in range(20):
            bank.pay(10, bank.pair if number % 2 else bank.pair[::-1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(in_thread, trade), range(4)))
    assert [1000, 500] == bank.balances


@by("optimistic", "watch", "watch_packed")
def test_an_optimistic_way_gives_up_when_the_account_never_rests(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed(*_args: Any) -> bool:
        bank.client.hincrby(account_key(bank.pair[0]), "touched", 1)
        return True

    monkeypatch.setattr(transfers, "check_funds", disturbed)
    monkeypatch.setattr(transfers, "is_due", disturbed)
    monkeypatch.setattr(transfers, "MAX_ATTEMPTS", 3)
    with pytest.raises(TooMuchContention, match="3 attempts"):
        bank.pay(1)
    assert [1000, 500] == bank.balances


@by("redis_lock", "redis_lock_client", "redis_py", "book_setnx", "book_lua", *ROW_LOCKS)
def test_a_lock_held_for_too_long_is_reported_as_contention(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payment, "WAIT_SECONDS", 0.05)
    lock = bank.lock_name(1)
    # The book's lock and redis-py's stand for the same key here.
    with setnx_lock(bank.client, lock), held(lock), pytest.raises(TooMuchContention):
        bank.pay(1)
    assert [1000, 500] == bank.balances


@by("rows_db")
def test_a_database_that_stays_locked_is_reported_as_contention(bank: Bank) -> None:
    other = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
    connection.cursor().execute("PRAGMA busy_timeout = 10")
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TooMuchContention, match="database is locked"):
            bank.pay(1)
    finally:
        other.close()
        connection.close()
    assert [1000, 500] == bank.balances


def test_both_accounts_are_locked_while_the_transfer_is_checked_and_not_after(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = [bank.lock_name(number) for number in (0, 1)]

    def watched(order: Order, answers: Any) -> bool:
        for lock in locks:
            assert_locked(lock)
        return is_due(order, answers)

    monkeypatch.setattr(transfers, "is_due", watched)
    assert bank.pay(1).moved
    for lock in locks:
        assert_released(lock)


@pytest.mark.usefixtures("redis_locks")
@by("rows_redis")
def test_row_locks_of_a_transfer_last_until_commit_and_no_longer(bank: Bank) -> None:
    with assert_not_held_across_commit(bank.lock_name(0)):
        bank.pay(600)
        assert_locked(bank.lock_name(0))
    assert [400, 1100] == bank.balances


@by("redis_lock", "rows_redis")
def test_a_write_of_a_holder_that_lost_its_lock_is_refused(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoke(*_: object) -> bool:
        inspection.force_release(bank.lock_name(0))
        return True

    monkeypatch.setattr(transfers, "is_due", revoke)
    monkeypatch.setattr(row_transfers, "check_funds", revoke)
    with pytest.raises(LockLost):
        bank.pay(1)
    assert [1000, 500] == bank.balances


@by("rows_fenced")
def test_a_holder_that_lost_its_locks_unnoticed_is_refused_by_the_rows(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_too_late() -> Any:
        """As if the process had been stopped between its acquire and BEGIN, past its lease."""
        monkeypatch.undo()
        for number in (0, 1):
            inspection.force_release(bank.lock_name(number))
        assert in_thread(bank.pay, 100).moved
        return atomic()

    monkeypatch.setattr(row_transfers, "atomic", begin_too_late)
    with pytest.raises(StaleHold, match="fencing token"):
        bank.pay(1)
    assert [900, 600] == bank.balances


@pytest.mark.parametrize("mode", [None, "deferred"])
def test_sqlite_without_immediate_transactions_has_no_safe_way(
    monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    assert "" == books.unavailable()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "transaction_mode", mode)
    assert '"IMMEDIATE"' in books.unavailable()
    monkeypatch.setattr(connection, "vendor", "postgresql")
    assert "" == books.unavailable()


def test_a_url_names_the_database_and_its_options_win(tmp_path: Path) -> None:
    url = "postgresql://me:secret@db.example:5433/bank?application_name=teller"
    found = database({"DATABASE_URL": url, "DEMO_DATABASE": "/elsewhere"}, tmp_path)
    where = {"NAME": "bank", "USER": "me", "PASSWORD": "secret", "HOST": "db.example", "PORT": 5433}
    options = {"options": f"-c lock_timeout={LOCK_SECONDS}s", "application_name": "teller"}
    assert (where | {"OPTIONS": options}).items() <= found.items()
    file = database({"DATABASE_URL": f"sqlite:///{tmp_path}/x?timeout=3"}, tmp_path)
    assert {"timeout": 3, "transaction_mode": "IMMEDIATE"}.items() <= file["OPTIONS"].items()


@pytest.mark.parametrize("kind", [setnx_lock, lua_lock, two_commands_lock])
def test_a_book_lock_excludes_and_says_that_it_was_lost_unless_the_block_failed_by_itself(
    client: redis.Redis, name: str, kind: Any
) -> None:
    if kind is two_commands_lock:
        if not (command := compares_and_deletes(client)):
            pytest.skip("this server has no command that compares and deletes")
        kind = partial(kind, command=command)
    key = f"lock:{name}"
    with kind(client, name), pytest.raises(LockTimeout), kind(client, name, wait=0.01):
        pytest.fail("two holders")
    assert not client.exists(key)
    with pytest.raises(LockLost), kind(client, name):
        client.set(key, "somebody else")
    assert b"somebody else" == client.getdel(key)
    with pytest.raises(ZeroDivisionError), kind(client, name):
        _ = client.delete(key) / 0


def test_a_setnx_lock_left_without_an_end_gets_one(client: redis.Redis, name: str) -> None:
    client.set(f"lock:{name}", "a holder that died before EXPIRE")
    with pytest.raises(LockTimeout), setnx_lock(client, name, wait=0.01):
        pytest.fail("two holders")
    assert 0 < client.ttl(f"lock:{name}") <= 10
