"""The reader's budget: how much a reader meets on the way of one lock, and how the package is laid out.

Each figure has a budget. Where the code does not meet it yet, a limit stands beside it, and may only fall.
`python -m pytest -n0 -s tests/architecture` prints what was counted and where.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from redis_locks.locks.hold import Hold
from redis_locks.locks.with_blocks import BlockExit
from redis_locks.protocol.lease import Lease
from redis_locks.testing.server import EmbeddedServer
from tests.architecture import cycles, structure

pytestmark = pytest.mark.ci


class Budget(NamedTuple):
    """How many there may be."""

    limit: float
    """What the test allows today."""
    budget: float
    """What we want; the limit falls until it is this."""


BUDGETS = {
    # what: the limit, the budget
    # A file more than before blocks had one of their own, and in async code an exit for each; see record 97.
    "files of a blocking cycle": Budget(12, 10),
    "functions of a blocking cycle": Budget(37, 25),
    "files of an async cycle": Budget(14, 14),
    # The answer to a release is awaited by a function of its own: blocking code needs none.
    "functions of an async cycle": Budget(52, 40),
    "files of an atomic cycle": Budget(17, 16),
    "functions of an atomic cycle": Budget(76, 60),
    # Callers have a file of their own: values holds values.
    "files of a force-release": Budget(15, 12),
    "functions of a force-release": Budget(53, 45),
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
    "modules at the top level": Budget(12, 12),
    "rooms": Budget(35, 35),
    "floors": Budget(12, 12),
    "imports that run back up": Budget(0, 0),
    "circles of files": Budget(0, 0),
    "layers of the linter": Budget(10, 10),
    "noqa of SLF001": Budget(10, 10),
    "file names that occur twice": Budget(0, 0),
    "classes that share private state with a base in another file": Budget(0, 0),
    "lines of ARCHITECTURE.md": Budget(200, 200),
    "lines of hold.py": Budget(700, 700),
    "methods of Hold": Budget(45, 45),
    "fields of Lease": Budget(23, 22),
}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server that nobody else asks anything, for its commands are counted."""
    with EmbeddedServer(use_environment=False) as started:
        yield started


def measured(verb: str, server: EmbeddedServer, *kind: str) -> Any:
    """Count in a process of its own; see `cycles`."""
    command = [sys.executable, "-m", "tests.architecture.cycles", verb, server.url, *kind]
    result = subprocess.run(
        command, cwd=cycles.ROOT, check=False, capture_output=True, text=True, timeout=50
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def judge(what: str, count: float, where: str = "") -> None:
    """Print a count, and fail if there are more than allowed."""
    limit, budget = BUDGETS[what]
    sys.stdout.write(f"{what}: {count}; limit {limit}, budget {budget}\n{where}")
    assert count <= limit, f"{what}: {count} is over the limit of {limit}.\n{where}"


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("blocking", "a blocking cycle"),
        ("async", "an async cycle"),
        ("atomic", "an atomic cycle"),
        ("force-release", "a force-release"),
    ],
)
def test_a_warm_cycle_passes_through_few_files_and_functions(
    verb: str, what: str, server: EmbeddedServer
) -> None:
    passed: dict[str, list[str]] = measured(verb, server)
    where = "".join(f"    {file}: {', '.join(passed[file])}\n" for file in passed)
    judge(f"files of {what}", len(passed), where)
    judge(f"functions of {what}", sum(map(len, passed.values())))


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


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("modules at the top level", structure.modules_at_the_top),
        ("rooms", structure.rooms),
        ("floors", structure.floors),
        ("imports that run back up", structure.imports_back_up),
        ("circles of files", structure.circles),
        ("layers of the linter", structure.layers),
        ("noqa of SLF001", structure.private_accesses),
        ("file names that occur twice", structure.repeated_names),
        (
            "classes that share private state with a base in another file",
            structure.spread_classes,
        ),
    ],
)
def test_the_layout_keeps_to_its_budget(what: str, count: Callable[[], list[str]]) -> None:
    found = count()
    judge(what, len(found), "".join(f"    {line}\n" for line in found))


def test_the_page_of_the_architecture_stays_short() -> None:
    text = (cycles.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    judge("lines of ARCHITECTURE.md", len(text.splitlines()))


def test_holds_and_leases_stay_small() -> None:
    text = Path(inspect.getsourcefile(Hold) or "").read_text(encoding="utf-8")
    judge("lines of hold.py", len(text.splitlines()))
    names = {name: value for base in Hold.__mro__[:-1] for name, value in vars(base).items()}
    methods = sorted(
        name
        for name, value in names.items()
        if callable(value) or isinstance(value, (property, classmethod, BlockExit))
    )
    judge("methods of Hold", len(methods), f"    {', '.join(methods)}\n")
    made = re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(Lease.__init__))
    shared = [
        name
        for name, value in vars(Lease).items()
        if not (name.startswith("__") or callable(value))
        and not isinstance(value, (property, staticmethod))
    ]
    fields = sorted({*made, *shared})
    judge("fields of Lease", len(fields), f"    {', '.join(fields)}\n")


def test_no_limit_is_below_its_budget() -> None:
    """Once a figure meets its budget, the budget is the limit."""
    assert {what for what, (limit, budget) in BUDGETS.items() if limit < budget} == set()
