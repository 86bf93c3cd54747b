"""Tests of behaviour use what users may import; what they need from inside is in `tests/support`.

So a change of internals changes `tests/support` and the tests in `tests/internals`, and no others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture import surface

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent

BEHAVIOUR = (
    "cluster",
    "compat",
    "contract",
    "demo",
    "django",
    "faults",
    "optimistic",
    "rows",
    "run_once",
    "servers",
    "signals",
    "statistics",
    "tasks",
    "testkit",
)

STILL_INSIDE: frozenset[str] = frozenset()
"""Files that reach inside nevertheless. The list may only become shorter."""

OF_A_HOLD = frozenset({"lease", "backend", "released"})
"""What holds are made of, for which `tests.support.leases` has names."""


def modules() -> frozenset[str]:
    """The names of all modules of the product."""
    found = (ROOT / "redis_locks").rglob("*.py")
    paths = (path.relative_to(ROOT).with_suffix("") for path in found)
    return frozenset(".".join(path.parts).removesuffix(".__init__") for path in paths)


MODULES = modules()


def is_public(module: str) -> bool:
    return module in surface.MODULES or any(path.startswith(f"{module}.") for path in surface.PATHS)


def module_of(dotted: str) -> str:
    """The module that `dotted` is, or has its last names from."""
    while dotted not in MODULES and "." in dotted:
        dotted = dotted.rpartition(".")[0]
    return dotted


def named(tree: ast.AST) -> Iterator[str]:
    """The dotted names of the product that a file imports, or gives to patch as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Call) and is_patch(node.func):
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def is_patch(function: ast.expr) -> bool:
    """Whether a call replaces or imports something that may be given as text."""
    names = {"setattr", "delattr", "patch", "import_module"}
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in names


def inside(tree: ast.AST) -> set[str]:
    """What a file knows of the product that users can't know."""
    ours = (each for each in named(tree) if each.partition(".")[0] == "redis_locks")
    modules = {module for each in ours if not is_public(module := module_of(each))}
    attributes = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "hold"
    )
    return modules | OF_A_HOLD.intersection(attributes)


@cache
def reaching() -> dict[str, set[str]]:
    """The tests of behaviour that know internals, and which ones."""
    paths = (path for folder in BEHAVIOUR for path in (TESTS / folder).rglob("*.py"))
    found = {path: inside(ast.parse(path.read_text("utf-8"))) for path in paths}
    return {path.relative_to(TESTS).as_posix(): what for path, what in found.items() if what}


@pytest.mark.ci
def test_tests_of_behaviour_reach_inside_through_support_only() -> None:
    assert {} == {path: what for path, what in reaching().items() if path not in STILL_INSIDE}


@pytest.mark.ci
def test_the_list_of_exceptions_has_no_others() -> None:
    assert set() == STILL_INSIDE - set(reaching())


@pytest.mark.parametrize(
    "code",
    [
        "import redis_locks.protocol.store",
        "from redis_locks.protocol import lease, store",
        "from redis_locks.protocol.store import acquire",
        "from redis_locks.statistics.collector import collector",
        "from redis_locks.inspection import queries",
        'monkeypatch.setattr("redis_locks.protocol.store.acquire", None)',
        "hold.lease.lose(reason)",
    ],
)
def test_what_reaches_inside_is_found(code: str) -> None:
    assert inside(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import redis_locks",
        "from redis_locks import Lock, inspection",
        "from redis_locks.testing.server import EmbeddedServer",
        "from tests.support.keys import lock_keys",
        '["redis_locks.E001"]',
    ],
)
def test_what_users_may_import_is_not(code: str) -> None:
    assert not inside(ast.parse(code))
