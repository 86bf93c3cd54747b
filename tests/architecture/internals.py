"""Say which tests of behaviour know internals; run by `lint`.

They use what users may import. What they need from inside is in `tests/support`. So a change of
internals changes that and `tests/internals`, and no other tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import redis_locks
from tests.architecture import surface

TESTS: Final = Path(__file__).parents[1]
ROOT: Final = TESTS.parent

BEHAVIOUR: Final = (
    "cluster", "compat", "contract", "demo", "django", "faults", "optimistic", "rows", "run_once",
    "servers", "signals", "statistics", "tasks", "testkit",
)  # fmt: skip

OF_A_HOLD: Final = {"lease", "backend", "released"}
"""What holds are made of, for which `tests.support.leases` has names."""

PATCHES: Final = {"setattr", "delattr", "patch", "import_module"}
"""What replaces or imports something that may be given as text."""

MODULES: Final = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "redis_locks").rglob("*.py")
}

SERVER: Final = "redis_locks.testing.server"
"""What the fixture `redis_locks` starts. Tests start more of it, and users cannot know it."""


def is_public(module: str) -> bool:
    return module in {*surface.MODULES, SERVER} or any(
        path.startswith(f"{module}.") for path in surface.PATHS
    )


def module_of(dotted: str) -> str:
    """Return the module that `dotted` is, or has its last names from.

    `redis_locks.run_once` is what users import, and not the package behind it.
    """
    if dotted.removeprefix("redis_locks.") in redis_locks.__all__:
        return "redis_locks"
    while dotted not in MODULES and "." in dotted:
        dotted = dotted.rpartition(".")[0]
    return dotted


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a file imports, or gives to patch as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in PATCHES:
                yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def inside(tree: ast.AST) -> set[str]:
    """Return what a file knows of the product that users can't know."""
    ours = (each for each in named(tree) if each.partition(".")[0] == "redis_locks")
    attributes = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "hold"
    )
    modules = {module for each in ours if not is_public(module := module_of(each))}
    return modules | OF_A_HOLD.intersection(attributes)


def known_to_tests_of_behaviour() -> list[str]:
    """Return a line for each such file."""
    paths = sorted(path for folder in BEHAVIOUR for path in (TESTS / folder).rglob("*.py"))
    found = ((path, inside(ast.parse(path.read_text(encoding="utf-8")))) for path in paths)
    return [
        f"{path.relative_to(TESTS)} knows {', '.join(sorted(what))}" for path, what in found if what
    ]
