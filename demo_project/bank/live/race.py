"""Many transfers at the same moment, half of them each way, and what came of them.

They run between two accounts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Self

import redis

from demo_project.bank.accounts import TransferError, account_key, read_balances
from demo_project.bank.background import at_once
from demo_project.bank.strategies import transfer_funds
from redis_locks import LockError

from .watcher import Moment, Watcher

EACH_WAY = 50
SLOW_EACH_WAY = 4
SLOW_SECONDS = 2.0
"""How long each transfer of a slow race works between reading and writing."""
START_SECONDS = 10.0
"""How long the runners may take to get to the start."""


@dataclass(frozen=True)
class Runner:
    """One transfer of a race.

    Attributes:
        name: The thread that made it, as holder and waiter of locks are shown.
        outcome: ``moved``, or why it was not, in a sentence.
        ms: How long it took.
        retries: How often its strategy had to start again.
        waited_for: Whom it was seen waiting for, in that order.
    """

    name: str
    sender: str
    moved: bool
    outcome: str
    ms: float
    retries: int
    waited_for: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What came of a race; runners in the order in which they finished, balances in cents."""

    strategy: str
    accounts: tuple[str, str]
    cents: int
    seconds: float
    before: tuple[int, int]
    after: tuple[int, int]
    runners: tuple[Runner, ...]
    fullest: Moment | None

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Self:
        """Return the result that `asdict` has made JSON of."""
        runners = (
            Runner(**{**runner, "waited_for": tuple(runner["waited_for"])})
            for runner in kept["runners"]
        )
        fullest = kept["fullest"] and Moment(**kept["fullest"])
        pairs = {name: tuple(kept[name]) for name in ("accounts", "before", "after")}
        return cls(**{**kept, **pairs, "runners": tuple(runners), "fullest": fullest})

    @property
    def expected(self) -> tuple[int, int]:
        """The balances that the transfers which say that they moved money should have led to."""
        paid = [
            sum(runner.moved and runner.sender == account for runner in self.runners)
            for account in self.accounts
        ]
        net = (paid[1] - paid[0]) * self.cents
        return self.before[0] + net, self.before[1] - net

    @property
    def missing_cents(self) -> int:
        """Money that was there before and is not now; below 0, money made up."""
        return sum(self.before) - sum(self.after)

    @property
    def moved(self) -> int:
        """How many transfers moved their money."""
        return sum(runner.moved for runner in self.runners)

    @property
    def retries(self) -> int:
        """How often transfers had to start again, in all."""
        return sum(runner.retries for runner in self.runners)

    @property
    def waiters(self) -> int:
        """How many transfers were seen waiting."""
        return sum(bool(runner.waited_for) for runner in self.runners)


def run_race(
    conn: redis.Redis,
    accounts: tuple[str, str],
    cents: int,
    *,
    strategy: str,
    each_way: int = EACH_WAY,
    work_seconds: float = 0.0,
) -> Result:
    """Make all transfers at the same moment, each in its own thread; block until all have ended.

    Raises:
        UnknownAccount: One of the accounts does not exist; nothing was moved.
        LockBackendError: The locks' server could not be asked; transfers may have been made.
        redis.RedisError: The bank's server could not be asked.
    """
    before = read_balances(conn, accounts)
    transfers = [
        Transfer(f"{pair[0]} to {pair[1]} {number}", *pair, cents, strategy, work_seconds)
        for number in range(1, each_way + 1)
        for pair in (accounts, accounts[::-1])
    ]
    seconds, runners, fullest = race(conn, transfers, account_key(accounts[0]))
    after = read_balances(conn, accounts)
    return Result(
        strategy,
        accounts,
        cents,
        seconds,
        (before[accounts[0]], before[accounts[1]]),
        (after[accounts[0]], after[accounts[1]]),
        runners,
        fullest,
    )


@dataclass(frozen=True)
class Transfer:
    """One transfer that is to be made; its name is that of its thread."""

    name: str
    sender: str
    recipient: str
    cents: int
    strategy: str
    work_seconds: float = 0.0


def race(
    conn: redis.Redis, transfers: Sequence[Transfer], lock_name: str
) -> tuple[float, tuple[Runner, ...], Moment | None]:
    """Make all transfers at the same moment, each in its own thread; block until all have ended.

    Args:
        conn: Client of the bank's server.
        transfers: What to make.
        lock_name: The lock that is watched meanwhile.

    Returns:
        For how many seconds it lasted, the runners in the order in which they finished, and the
        longest queue.

    Raises:
        LockBackendError: The locks' server could not be asked; transfers may have been made.
        redis.RedisError: The bank's server could not be asked.
    """
    watcher, start = Watcher(lock_name), threading.Barrier(len(transfers) + 1)
    with _client_for(conn, len(transfers)) as client:
        runs = at_once([partial(_run, client, start, transfer) for transfer in transfers])
        try:
            start.wait(START_SECONDS)
            started = time.perf_counter()
            while wait(runs, 0).not_done:
                watcher.look()
        finally:
            # Whoever is at the start must not wait for those who never come.
            start.abort()
            wait(runs)
    finished = sorted((run.result() for run in runs), key=itemgetter(0))
    runners = [replace(run, waited_for=watcher.waited_for(run.name)) for _, run in finished]
    return finished[-1][0] - started, tuple(runners), watcher.fullest


def _run(conn: redis.Redis, start: threading.Barrier, transfer: Transfer) -> tuple[float, Runner]:
    """Make a transfer once all are at the start; return when it ended, and what it did."""
    threading.current_thread().name = transfer.name
    moved, retries, outcome = False, 0, "moved"
    began = time.perf_counter()
    try:
        start.wait(START_SECONDS)
        began = time.perf_counter()
        receipt = transfer_funds(
            conn,
            transfer.sender,
            transfer.recipient,
            transfer.cents,
            strategy=transfer.strategy,
            work_seconds=transfer.work_seconds,
        )
        moved, retries = receipt.moved, receipt.retries
    except (TransferError, LockError, redis.RedisError, threading.BrokenBarrierError) as error:
        outcome = str(error) or type(error).__name__
    ended = time.perf_counter()
    ms = round((ended - began) * 1000, 1)
    return ended, Runner(transfer.name, transfer.sender, moved, outcome, ms, retries, ())


@contextmanager
def _client_for(conn: redis.Redis, runners: int) -> Iterator[redis.Redis]:
    """A client with a connection for each runner, as the pool of `conn` may have too few."""
    pool = conn.connection_pool
    own = redis.ConnectionPool(
        pool.connection_class, max_connections=runners, **pool.connection_kwargs
    )
    with redis.Redis.from_pool(own) as client:
        yield client
