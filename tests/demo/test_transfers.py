"""Every way to move money: what it refuses, what it conserves, and that it happens once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import redis

from demo_project.bank import lua_transfer, payment, transfers
from demo_project.bank.accounts import (
    REDIS_BOOKS,
    InsufficientFunds,
    InvalidTransfer,
    TooMuchContention,
    UnknownAccount,
    account_key,
    read_balances,
    seed_accounts,
)
from demo_project.bank.payment import Order, is_due
from demo_project.bank.strategies import STRATEGIES, Durability, transfer_funds
from redis_locks import Hold, Lock, LockLost, LockTimeout, inspection
from redis_locks.testing import assert_locked, assert_released
from tests.elsewhere import held
from tests.support.benchmark import (
    compares_and_deletes,
    lua_lock,
    setnx_lock,
    two_commands_lock,
)
from tests.support.optimistic import lose_first_answer_of_exec

# Strategies over accounts that are kept elsewhere have tests of their own.
# The same code on another server need not be tested again.
ON_REDIS = [
    name
    for name, strategy in STRATEGIES.items()
    if strategy.books is REDIS_BOOKS and strategy.durability is Durability.MEMORY
]
SAFE = [name for name in ON_REDIS if STRATEGIES[name].is_safe]


@pytest.fixture
def accounts(client: redis.Redis, name: str) -> tuple[str, str]:
    pair = (f"{name}-a", f"{name}-b")
    seed_accounts(client, {pair[0]: 1000, pair[1]: 500})
    return pair


def balances(client: redis.Redis, accounts: tuple[str, str]) -> list[int]:
    return list(read_balances(client, accounts).values())


@pytest.mark.parametrize("strategy", ON_REDIS)
def test_a_transfer_moves_the_amount_or_is_refused_and_moves_nothing(
    client: redis.Redis, accounts: tuple[str, str], name: str, strategy: str
) -> None:
    nobody = f"{name}-nobody"
    for pair in ((accounts[0], nobody), (nobody, accounts[0])):
        with pytest.raises(UnknownAccount, match=nobody):
            transfer_funds(client, *pair, 1, strategy=strategy)
    assert not client.exists(account_key(nobody))
    with pytest.raises(InsufficientFunds, match=r"holds 10\.00,.* 10\.01 asked"):
        transfer_funds(client, *accounts, 1001, strategy=strategy)
    assert balances(client, accounts) == [1000, 500]
    assert transfer_funds(client, *accounts, 300, strategy=strategy).moved
    assert balances(client, accounts) == [700, 800]
    transfer_funds(client, *reversed(accounts), 800, strategy=strategy)
    assert balances(client, accounts) == [1500, 0]


@pytest.mark.parametrize("cents", [0, True, 1.5])
def test_an_amount_that_is_no_positive_whole_number_is_refused(
    client: redis.Redis, accounts: tuple[str, str], cents: Any
) -> None:
    with pytest.raises(InvalidTransfer, match="amount"):
        transfer_funds(client, *accounts, cents)
    for sender, why in ((accounts[1], "same account"), (7, "sender must be an account id")):
        with pytest.raises(InvalidTransfer, match=why):
            transfer_funds(client, sender, accounts[1], 1)
    assert balances(client, accounts) == [1000, 500]


@pytest.mark.parametrize("strategy", SAFE)
def test_repeating_an_operation_moves_the_money_once(
    client: redis.Redis, accounts: tuple[str, str], name: str, strategy: str
) -> None:
    # 600 of 1000: the second call would be an overdraft if it looked at the balance first.
    first = transfer_funds(client, *accounts, 600, strategy=strategy, operation_id=name)
    again = transfer_funds(client, *accounts, 600, strategy=strategy, operation_id=name)
    assert (first.moved, again.moved) == (True, False)
    assert balances(client, accounts) == [400, 1100]


@pytest.mark.parametrize("strategy", SAFE)
def test_a_retry_after_a_lost_reply_does_not_move_the_money_twice(
    client: redis.Redis,
    accounts: tuple[str, str],
    name: str,
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose_first_reply_of_the_write(monkeypatch)
    with suppress(redis.ConnectionError):
        transfer_funds(client, *accounts, 600, strategy=strategy, operation_id=name)
    assert lost.is_set()
    again = transfer_funds(client, *accounts, 600, strategy=strategy, operation_id=name)
    assert not again.moved
    assert balances(client, accounts) == [400, 1100]


def lose_first_reply_of_the_write(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the first write reach the server, then act as if the connection broke before its reply."""
    lost = threading.Event()
    execute = redis.client.Pipeline.execute

    def broken_execute(pipe: Any, *args: Any, **kwargs: Any) -> Any:
        writes = pipe.explicit_transaction
        result = execute(pipe, *args, **kwargs)
        if writes and not lost.is_set():
            lost.set()
            # redis-py's own words for a connection that breaks while it watches.
            raise redis.WatchError("A ConnectionError occurred while watching one or more keys")
        return result

    def breaking(write: Any) -> Any:
        def broken(*args: Any, **kwargs: Any) -> Any:
            outcome = write(*args, **kwargs)
            if not lost.is_set():
                lost.set()
                raise redis.ConnectionError("Connection closed by server.")
            return outcome

        return broken

    exchange = transfers.exchange

    def broken_exchange(link: Any, commands: Any) -> Any:
        found = exchange(link, commands)
        if commands[0] == ("MULTI",) and not lost.is_set():
            lost.set()
            raise redis.ConnectionError("Connection closed by server.")
        return found

    lose_first_answer_of_exec(monkeypatch, lost)
    monkeypatch.setattr(transfers, "exchange", broken_exchange)
    monkeypatch.setattr(Hold, "commit", breaking(Hold.commit))
    monkeypatch.setattr(redis.client.Pipeline, "execute", broken_execute)
    monkeypatch.setattr(transfers, "move_money", breaking(transfers.move_money))
    monkeypatch.setattr(lua_transfer, "run_transfer", breaking(lua_transfer.run_transfer))
    return lost


@pytest.mark.parametrize("strategy", SAFE)
def test_money_is_conserved_when_many_transfer_at_once(
    client: redis.Redis, accounts: tuple[str, str], strategy: str
) -> None:
    def trade(number: int) -> None:
        pair = accounts if number % 2 else accounts[::-1]
        for _ in range(25):
            transfer_funds(client, *pair, 10, strategy=strategy)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(trade, range(4)))
    assert balances(client, accounts) == [1000, 500]


def test_the_unprotected_way_loses_money_when_two_transfers_cross(
    client: redis.Redis, accounts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_read = threading.Barrier(2, timeout=10)
    found: list[int] = []

    def check_together(sender: str, balance: int, cents: int) -> None:
        found.append(balance)
        both_have_read.wait()

    monkeypatch.setattr(transfers, "check_funds", check_together)
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(transfer_funds, client, *accounts, cents, strategy="unprotected")
            for cents in (100, 300)
        ]
        assert all(job.result().moved for job in jobs)
    assert found == [1000, 1000]
    # Both report success, yet the sender was charged for one of them only.
    assert balances(client, accounts)[0] in (900, 700)


@pytest.mark.parametrize("strategy", ["optimistic", "watch", "watch_packed"])
def test_an_optimistic_way_gives_up_when_the_account_never_rests(
    client: redis.Redis, accounts: tuple[str, str], monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    def disturbed(*_args: Any) -> bool:
        client.hincrby(account_key(accounts[0]), "touched", 1)
        return True

    monkeypatch.setattr(transfers, "check_funds", disturbed)
    monkeypatch.setattr(transfers, "is_due", disturbed)
    monkeypatch.setattr(transfers, "MAX_ATTEMPTS", 3)
    with pytest.raises(TooMuchContention, match="3 attempts"):
        transfer_funds(client, *accounts, 1, strategy=strategy)
    assert balances(client, accounts) == [1000, 500]


@pytest.mark.parametrize(
    "strategy", ["redis_lock", "redis_lock_client", "redis_py", "book_setnx", "book_lua"]
)
def test_a_lock_held_for_too_long_is_reported_as_contention(
    client: redis.Redis,
    accounts: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
) -> None:
    monkeypatch.setattr(payment, "WAIT_SECONDS", 0.05)
    key = account_key(accounts[1])
    # The book's lock and redis-py's stand for the same key here.
    with setnx_lock(client, key), held(Lock(key)), pytest.raises(TooMuchContention):
        transfer_funds(client, *accounts, 1, strategy=strategy)
    assert balances(client, accounts) == [1000, 500]


def test_both_accounts_are_locked_while_the_transfer_is_checked_and_not_after(
    client: redis.Redis, accounts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(order: Order, answers: Any) -> bool:
        for account in accounts:
            assert_locked(account_key(account))
        return is_due(order, answers)

    monkeypatch.setattr(transfers, "is_due", watched)
    assert transfer_funds(client, *accounts, 1).moved
    for account in accounts:
        assert_released(account_key(account))


def test_a_write_of_a_holder_that_lost_its_lock_is_refused(
    client: redis.Redis, accounts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoke(order: Order, answers: Any) -> bool:
        inspection.force_release(account_key(accounts[0]))
        return is_due(order, answers)

    monkeypatch.setattr(transfers, "is_due", revoke)
    with pytest.raises(LockLost):
        transfer_funds(client, *accounts, 1)
    assert balances(client, accounts) == [1000, 500]


def two_commands(client: redis.Redis, name: str, **options: float) -> Any:
    """The lock of SET and the command that this server has."""
    command = compares_and_deletes(client)
    if not command:
        pytest.skip("this server has no command that compares and deletes")
    return two_commands_lock(client, name, command=command, **options)


@pytest.mark.parametrize("lock", [setnx_lock, lua_lock, two_commands])
def test_a_book_lock_that_was_lost_is_reported_unless_the_block_failed_by_itself(
    client: redis.Redis, name: str, lock: Any
) -> None:
    with pytest.raises(LockLost), lock(client, name):
        client.set(f"lock:{name}", "somebody else")
    assert client.get(f"lock:{name}") == b"somebody else"
    client.delete(f"lock:{name}")
    with pytest.raises(ZeroDivisionError), lock(client, name):
        _ = client.delete(f"lock:{name}") / 0


@pytest.mark.parametrize("lock", [setnx_lock, lua_lock, two_commands])
def test_a_book_lock_gives_up_after_its_wait(client: redis.Redis, name: str, lock: Any) -> None:
    with lock(client, name), pytest.raises(LockTimeout), lock(client, name, wait=0.01):
        pytest.fail("two holders")
    assert not client.exists(f"lock:{name}")


def test_a_setnx_lock_left_without_an_end_gets_one(client: redis.Redis, name: str) -> None:
    client.set(f"lock:{name}", "a holder that died before EXPIRE")
    with pytest.raises(LockTimeout), setnx_lock(client, name, wait=0.01):
        pytest.fail("two holders")
    assert 0 < client.ttl(f"lock:{name}") <= 10
