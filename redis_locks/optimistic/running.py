"""Transactions and their figures in both worlds. Imports redis-py, and so is imported when one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis_locks.drivers.base import run_blocking
from redis_locks.optimistic.clients import Using
from redis_locks.optimistic.conflicts import ConflictRate
from redis_locks.optimistic.execution import Asynchronous, Blocking
from redis_locks.optimistic.plans import Plan
from redis_locks.optimistic.retries import conflict_rates, transact

_BLOCKING = Blocking()
_ASYNCHRONOUS = Asynchronous()


def run(function: Callable[[Any], Any], plan: Plan) -> Any:
    """Run a transaction and return the function's value; see `transact`. Blocks."""
    return run_blocking(transact(_BLOCKING, function, plan))


async def arun(function: Callable[[Any], Any], plan: Plan) -> Any:
    """Run a transaction and return the function's value; see `transact`."""
    return await transact(_ASYNCHRONOUS, function, plan)


def conflicts(using: Using, limit: int | None) -> list[ConflictRate]:
    """Return the rates of the keys with the most conflicts; see `conflict_rates`. Blocks."""
    return run_blocking(conflict_rates(_BLOCKING, using, limit))


async def aconflicts(using: Using, limit: int | None) -> list[ConflictRate]:
    """Return the rates of the keys with the most conflicts; see `conflict_rates`."""
    return await conflict_rates(_ASYNCHRONOUS, using, limit)
