"""The public API is what the reviewed file says, and what the docs show."""

from __future__ import annotations

import ast
import difflib
import pickle
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import redis_locks
from tests.architecture import surface
from tests.support.children import run_python

ROOT = Path(__file__).parents[2]
PAGES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if not {"_build", "decisions"} & {*path.parts}
]
EXAMPLE = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
"""What readers see. tests/test_readme.py runs it."""
PUBLIC = re.compile(
    r"^ *(?:(?:class|received|property|staticmethod|classmethod|async|def) )*+([a-z]\w*)",
    re.IGNORECASE | re.MULTILINE,
)
NOT_IN_AN_EXAMPLE = {
    "FenceField": "Django writes it into migrations",
}


def test_the_public_api_is_the_reviewed_one() -> None:
    reviewed = surface.FILE.read_text(encoding="utf-8").splitlines()
    # In a process of its own: tests register what is none of it, such as further subjects of the
    # benchmark.
    found = run_python("-m", "tests.architecture", check=True).stdout.splitlines()
    if found != reviewed:
        diff = difflib.unified_diff(reviewed, found, "public_api.txt", "the code", n=2, lineterm="")
        pytest.fail(
            "The public API changed. If that is meant, run `python -m tests.architecture --write`, "
            "review the file and say so in CHANGELOG.md.\n" + "\n".join(diff),
            pytrace=False,
        )


def test_each_public_name_occurs_in_an_example_that_runs() -> None:
    """By its word alone: whether an example shows the `name` of a lock or of a job is not asked."""
    shown = {word for page in PAGES for code in EXAMPLE.findall(page) for word in words(code)}
    missing = set(public_names()) - shown
    assert missing == NOT_IN_AN_EXAMPLE.keys()


def test_each_verb_of_the_command_stands_on_a_page() -> None:
    verbs = re.findall(r"^locks (\w+)", section("manage.py locks"), re.MULTILINE)
    assert len(verbs) > 10
    assert [] == [verb for verb in verbs if not any(f"manage.py locks {verb}" in p for p in PAGES)]


def public_names() -> Iterator[str]:
    """Yield the names of modules, classes, members and settings."""
    for module in surface.MODULES:
        yield module.rpartition(".")[2]
        yield from PUBLIC.findall(section(f"module {module}"))
    yield from (path.rpartition(".")[2] for path in section("dotted paths").split())
    yield from PUBLIC.findall(section("setting REDIS_LOCKS"))


def section(title: str) -> str:
    """Return the lines of the reviewed file that stand below a title."""
    reviewed = surface.FILE.read_text(encoding="utf-8")
    return reviewed.partition(f"## {title}\n")[2].partition("\n## ")[0]


def words(code: str) -> Iterator[str]:
    """Yield the names in an example, and the words of its dotted paths and keys of settings."""
    for node in ast.walk(ast.parse(textwrap.dedent(code))):
        for field in ("id", "attr", "arg", "name", "module", "value"):
            text = getattr(node, field, None)
            if isinstance(text, str) and (field != "value" or is_a_name(text)):
                yield from re.split(r"\.|__", text)


def is_a_name(text: str) -> bool:
    return text.startswith("redis_locks.") or text.isupper()


def test_the_package_finds_each_public_name_when_it_is_asked_for() -> None:
    found = {name: getattr(redis_locks, name) for name in redis_locks.__all__}
    assert set(redis_locks.__all__) <= set(dir(redis_locks))
    for value in found.values():
        assert value is pickle.loads(pickle.dumps(value))  # noqa: S301 - made here


@pytest.mark.parametrize("name", ["optimistic", "run_once"])
def test_a_package_does_not_take_the_place_of_the_function_with_its_name(name: str) -> None:
    code = f"import redis_locks.{name}, redis_locks; assert redis_locks.{name}.__name__ == {name!r}"
    code += f"\nassert isinstance(redis_locks.{name}, type)"
    setup = "from django.conf import settings; settings.configure()\n"
    run_python("-c", setup + code, check=True)
    assert import_module(f"redis_locks.{name}") is not getattr(redis_locks, name)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Lcok'"):
        _ = redis_locks.Lcok
