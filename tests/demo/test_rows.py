"""The bank over rows: what each way refuses and conserves, and that it happens once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.transaction import atomic

from demo_project.bank import payment
from demo_project.bank.accounts import InsufficientFunds, TooMuchContention, UnknownAccount
from demo_project.bank.strategies import STRATEGIES, transfer_funds
from demo_project.databases import LOCK_SECONDS, database
from demo_project.rows import books, row_transfers
from demo_project.rows.books import ROWS
from demo_project.rows.models import Operation
from redis_locks import Lock, LockLost, StaleHold, inspection
from redis_locks.testing import (
    assert_locked,
    assert_not_held_across_commit,
)
from tests.elsewhere import held

ON_ROWS = [name for name, strategy in STRATEGIES.items() if strategy.books is ROWS]
# By the names of their locks on Redis.
ON_REDIS = {"rows_redis": "bank_rows.Account@default:{}", "rows_fenced": "bank_rows.account:{}"}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pair(client: redis.Redis, name: str) -> Iterator[tuple[str, str]]:
    pair = (f"{name}-a", f"{name}-b")
    ROWS.seed(client, {pair[0]: 1000, pair[1]: 500})
    yield pair
    ROWS.delete(client, pair)
    assert not Operation.objects.exists()


def balances(client: redis.Redis, pair: tuple[str, str]) -> list[int]:
    return list(ROWS.read(client, pair).values())


@pytest.mark.parametrize("strategy", ON_ROWS)
def test_a_transfer_between_rows_moves_the_amount_once(
    client: redis.Redis, pair: tuple[str, str], name: str, strategy: str
) -> None:
    # 600 of 1000: the second call would be an overdraft if it looked at the balance first.
    first = transfer_funds(client, *pair, 600, strategy=strategy, operation_id=name)
    again = transfer_funds(client, *pair, 600, strategy=strategy, operation_id=name)
    assert (True, False) == (first.moved, again.moved)
    assert [400, 1100] == balances(client, pair)


@pytest.mark.usefixtures("redis_locks")
def test_row_locks_of_a_transfer_last_until_commit_and_no_longer(
    client: redis.Redis, pair: tuple[str, str], name: str
) -> None:
    lock = ON_REDIS["rows_redis"].format(pair[0])
    with assert_not_held_across_commit(lock):
        transfer_funds(client, *pair, 600, strategy="rows_redis", operation_id=name)
        assert_locked(lock)
    assert [400, 1100] == balances(client, pair)


@pytest.mark.parametrize("strategy", ON_ROWS)
def test_rows_refuse_overdrafts_and_unknown_accounts(
    client: redis.Redis, pair: tuple[str, str], name: str, strategy: str
) -> None:
    with pytest.raises(InsufficientFunds, match=r"holds 10\.00,.* 10\.01 asked"):
        transfer_funds(client, *pair, 1001, strategy=strategy)
    for wrong in ((pair[0], "nobody"), ("nobody", pair[0])):
        with pytest.raises(UnknownAccount, match="nobody"):
            transfer_funds(client, *wrong, 1, strategy=strategy)
    assert [1000, 500] == balances(client, pair)
    with pytest.raises(UnknownAccount, match="nobody"):
        ROWS.read(client, ["nobody"])


@pytest.mark.parametrize("strategy", ON_ROWS)
def test_money_in_rows_is_conserved_when_many_transfer_at_once(
    client: redis.Redis, pair: tuple[str, str], strategy: str
) -> None:
    def trade(number: int) -> None:
        try:
            for _ in range(10):
                transfer_funds(client, *(pair if number % 2 else pair[::-1]), 7, strategy=strategy)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(trade, range(4)))
    assert [1000, 500] == balances(client, pair)
    assert 40 == Operation.objects.count()


@pytest.mark.parametrize("strategy", ON_REDIS)
def test_a_lock_of_rows_held_for_too_long_is_reported_as_contention(
    client: redis.Redis, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setattr(payment, "WAIT_SECONDS", 0.05)
    with (
        held(Lock(ON_REDIS[strategy].format(pair[1]))),
        pytest.raises(TooMuchContention, match="stayed"),
    ):
        transfer_funds(client, *pair, 1, strategy=strategy)
    assert [1000, 500] == balances(client, pair)


def test_a_database_that_stays_locked_is_reported_as_contention(
    client: redis.Redis, pair: tuple[str, str]
) -> None:
    other = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
    connection.cursor().execute("PRAGMA busy_timeout = 10")
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TooMuchContention, match="database is locked"):
            transfer_funds(client, *pair, 1, strategy="rows_db")
    finally:
        other.close()
        connection.close()
    assert [1000, 500] == balances(client, pair)


def test_a_transfer_whose_row_locks_were_lost_is_rolled_back(
    client: redis.Redis, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoke(*_: object) -> None:
        inspection.force_release(ON_REDIS["rows_redis"].format(pair[0]))

    monkeypatch.setattr(row_transfers, "check_funds", revoke)
    with pytest.raises(LockLost):
        transfer_funds(client, *pair, 1, strategy="rows_redis")
    assert [1000, 500] == balances(client, pair)


def test_a_holder_that_lost_its_locks_unnoticed_is_refused_by_the_rows(
    client: redis.Redis, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pay_in_the_meantime() -> None:
        try:
            assert transfer_funds(client, *pair, 100, strategy="rows_fenced").moved
        finally:
            connection.close()

    def begin_too_late() -> Any:
        """As if the process had been stopped between its acquire and BEGIN, past its lease."""
        monkeypatch.undo()
        for account in pair:
            inspection.force_release(ON_REDIS["rows_fenced"].format(account))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(pay_in_the_meantime).result()
        return atomic()

    monkeypatch.setattr(row_transfers, "atomic", begin_too_late)
    with pytest.raises(StaleHold, match="fencing token"):
        transfer_funds(client, *pair, 1, strategy="rows_fenced")
    assert [900, 600] == balances(client, pair)


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
    assert ("django.db.backends.postgresql", "bank", "me", "secret", "db.example", 5433) == tuple(
        found[part] for part in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    )
    assert {
        "options": f"-c lock_timeout={LOCK_SECONDS}s",
        "application_name": "teller",
    } == found["OPTIONS"]
    file = database({"DATABASE_URL": f"sqlite:///{tmp_path}/x?timeout=3"}, tmp_path)
    assert (f"{tmp_path}/x", 3, "IMMEDIATE") == (
        file["NAME"],
        file["OPTIONS"]["timeout"],
        file["OPTIONS"]["transaction_mode"],
    )


@pytest.mark.parametrize("url", ["db.example/bank", "oops://me:secret@db.example/bank"])
def test_a_url_that_names_no_database_is_refused_without_its_password(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL names no database") as refused:
        database({"DATABASE_URL": url}, tmp_path)
    assert "secret" not in str(refused.value)
