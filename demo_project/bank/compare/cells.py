"""Measure every cell of a plan with real processes against the real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict

import redis

from demo_project.bank.persistence import Persistence
from demo_project.bank.server import MeasuredServer
from demo_project.bank.strategies import STRATEGIES, Durability
from demo_project.benchmark.pool import WorkerPool

from .plan import ACCOUNTS, Cell, Plan
from .statistics import Figures, WorkerReport, summarise
from .worker import Job

STARTING_CENTS = 10_000
# All that two accounts have together: without a bound, money made up out of nothing would double
# and double again.
MOST_CENTS = 2 * STARTING_CENTS
WORKER = "demo_project.bank.compare.worker"
# A worker may start one last transfer at the end of its time, and that may wait for two locks.
GRACE_SECONDS = 45.0


def measure(
    server: MeasuredServer,
    plan: Plan,
    run: str,
    check: Callable[[], None],
    *,
    apart: bool = False,
) -> Generator[tuple[Cell, Figures]]:
    """Measure one cell after the other; blocks about ``plan.seconds`` for each.

    Args:
        server: What to measure.
        plan: How.
        run: Start of the ids of the accounts, the same for `clear`.
        check: Called several times a second; what it raises ends the run at once.
        apart: Start each worker by itself.

    Raises:
        WorkerError: A worker failed or did not answer in time.
    """
    persistence = Persistence(server.conn)
    try:
        with WorkerPool(
            WORKER, max(plan.workers), grace=GRACE_SECONDS, check=check, apart=apart
        ) as pool:
            for cell in plan.cells():
                durability = STRATEGIES[cell.strategy].durability
                persistence.switch(on_disk=durability is Durability.AOF)
                yield cell, _measure_cell(server, pool, cell, plan.seconds, run)
    finally:
        with suppress(redis.RedisError):  # it may be what has ended the run
            persistence.switch(on_disk=False)


def clear(conn: redis.Redis, run: str) -> None:
    """Delete what a run may have left behind whose process was killed."""
    accounts = account_ids(run, max(ACCOUNTS.values()))
    for books in dict.fromkeys(strategy.books for strategy in STRATEGIES.values()):
        books.delete(conn, accounts)


def account_ids(run: str, count: int) -> list[str]:
    """The accounts of a run, so that the bank's customers do not get in the way."""
    return [f"{run}-{number}" for number in range(count)]


def _measure_cell(
    server: MeasuredServer, pool: WorkerPool, cell: Cell, seconds: float, run: str
) -> Figures:
    accounts = account_ids(run, ACCOUNTS[cell.accounts])
    # Operations are remembered for a while, so each measurement numbers its own.
    jobs = [
        Job(
            cell.strategy,
            accounts,
            seconds,
            number,
            uuid.uuid4().hex,
            MOST_CENTS,
            server.url,
        )
        for number in range(cell.workers)
    ]
    conn, books = server.conn, STRATEGIES[cell.strategy].books
    books.seed(conn, dict.fromkeys(accounts, STARTING_CENTS))
    try:
        pool.prepare([asdict(job) for job in jobs])
        # Only now: each warm-up moves a cent.
        before = books.read(conn, accounts)
        had_read = _messages(conn)
        reports = [WorkerReport(**report) for report in pool.run(seconds)]
        has_read = _messages(conn)
        # But for the message that asks.
        trips = None if had_read is None or has_read is None else has_read - had_read - 1
        after = books.read(conn, accounts)
    finally:
        books.delete(conn, accounts)
    return summarise(reports, before, after, trips)


def _messages(conn: redis.Redis) -> int | None:
    """What the server has read: one for each message of a client, however many commands are in it.

    None where the server does not count them.
    """
    found = conn.info()
    reads = found.get("total_reads_processed")
    if reads is None:
        return None
    # That a client hangs up is a read, too, of nothing.
    ended = found["total_connections_received"] - found["connected_clients"]
    return int(reads - ended)
