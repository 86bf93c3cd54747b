"""Measure every cell of a plan with real processes against the real server."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Iterator
from importlib.metadata import version

import redis

from demo_project.bank.accounts import delete_accounts, read_balances, seed_accounts

from .plan import ACCOUNTS, Cell, Plan
from .pool import WorkerPool
from .statistics import Figures, summarise
from .worker import Job

STARTING_CENTS = 10_000


def measure(conn: redis.Redis, plan: Plan) -> Iterator[tuple[Cell, Figures]]:
    """Measure one cell after the other; blocks about ``plan.seconds`` for each.

    Raises:
        WorkerError: A worker failed or did not answer in time.
    """
    with WorkerPool(max(plan.workers)) as pool:
        for cell in plan.cells():
            yield cell, _measure_cell(conn, pool, cell, plan.seconds)


def _measure_cell(conn: redis.Redis, pool: WorkerPool, cell: Cell, seconds: float) -> Figures:
    # Accounts of its own, so that neither the bank's customers nor an interrupted run get in the way.
    run = uuid.uuid4().hex[:12]
    account_ids = [f"{run}-{number}" for number in range(ACCOUNTS[cell.accounts])]
    seed_accounts(conn, dict.fromkeys(account_ids, STARTING_CENTS))
    try:
        jobs = [
            Job(cell.strategy, account_ids, seconds, number, run) for number in range(cell.workers)
        ]
        reports = pool.run(jobs)
        balances = read_balances(conn, account_ids)
    finally:
        delete_accounts(conn, account_ids)
    return summarise(reports, STARTING_CENTS * len(account_ids), balances.values())


def describe_versions(conn: redis.Redis) -> dict[str, str]:
    """Versions and machine that the figures belong to."""
    info = conn.info("server")
    valkey = info.get("valkey_version")
    return {
        "server": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}",
        "python": platform.python_version(),
        "django": version("django"),
        "redis-py": version("redis"),
        "cpus": str(os.cpu_count()),
    }
