"""What one lock costs: commands of the server, imports.

Lint judges the layout, and `nox -s instructions` counts the code on a cycle's way.

Each figure has a budget. Where the code does not meet it yet, a limit stands beside it, and may
only fall. `python -m pytest -n0 -s -m ci tests/architecture` prints what was counted and where.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.architecture import cycles
from tests.support.children import run_python

pytestmark = pytest.mark.ci


class Budget(NamedTuple):
    """How many there may be."""

    limit: float
    """What the test allows today."""
    budget: float
    """What we want; the limit falls until it is this."""


BUDGETS = {
    # what: the limit, the budget.
    "server commands of a free cycle, exclusive": Budget(10, 10),
    "server commands of a contended cycle, exclusive": Budget(14, 14),
    "server commands of a free cycle, shared": Budget(25, 25),
    "server commands of a contended cycle, shared": Budget(23, 23),
    "server commands of a free cycle, set of 2": Budget(14, 14),
    "server commands of a contended cycle, set of 2": Budget(26, 26),
    "server commands of a free cycle, set of 4": Budget(22, 22),
    "server commands of a contended cycle, set of 4": Budget(38, 38),
    "server commands of a free cycle, permit": Budget(29, 29),
    "server commands of a contended cycle, permit": Budget(46, 46),
    "modules imported by django.setup()": Budget(37, 36),
    "modules imported by django.setup() with the admin": Budget(39, 38),
}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server that nobody else asks anything, for its commands are counted."""
    with EmbeddedServer(use_environment=False) as started:
        yield started


def measured(verb: str, server: EmbeddedServer, *kind: str) -> Any:
    """Count in a process of its own; see `cycles`."""
    result = run_python("-m", "tests.architecture.cycles", verb, server.url, *kind)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def judge(what: str, count: float, where: str = "") -> None:
    """Print a count, and fail if there are more than allowed."""
    limit, budget = BUDGETS[what]
    sys.stdout.write(f"{what}: {count}; limit {limit}, budget {budget}\n{where}")
    assert count <= limit, f"{what}: {count} is over the limit of {limit}.\n{where}"


@pytest.mark.parametrize("kind", cycles.KINDS)
def test_the_server_runs_few_commands_for_a_cycle(kind: str, server: EmbeddedServer) -> None:
    counted = measured("commands", server, kind)
    judge(f"server commands of a free cycle, {kind}", round(counted["free"]))
    # Between processes, now and then one finds the lock free, or asks once more.
    judge(f"server commands of a contended cycle, {kind}", round(counted["contended"]))


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("modules", "modules imported by django.setup()"),
        ("modules-with-admin", "modules imported by django.setup() with the admin"),
    ],
)
def test_django_s_start_imports_few_modules(verb: str, what: str, server: EmbeddedServer) -> None:
    modules: list[str] = measured(verb, server)
    judge(what, len(modules), "".join(f"    {m}\n" for m in modules))


def test_no_limit_is_below_its_budget() -> None:
    """Once a figure meets its budget, the budget is the limit."""
    assert {what for what, (limit, budget) in BUDGETS.items() if limit < budget} == set()
