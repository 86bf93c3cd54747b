"""The tables of docs/reference say what the code does."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import redis_locks
from redis_locks import exceptions, fencing, signals
from redis_locks.checks import configuration, row_locks, task_order, view_checks, view_locks
from redis_locks.conf import settings as configured
from redis_locks.conf import validation
from redis_locks.decorators import answers
from redis_locks.decorators.semaphore import MAX_CAPACITY
from redis_locks.inspection.queries import MOST_WAITERS, MOST_WAITERS_LISTED
from redis_locks.locks.options import MOST_WAITING
from redis_locks.optimistic.transaction import MAX_ATTEMPTS
from redis_locks.run_once.results import MAX_RESULT_BYTES
from redis_locks.run_once.terms import MOST_ATTEMPTS
from redis_locks.values.durations import MIN_LEASE
from redis_locks.values.keys import MAX_NAME_BYTES, MAX_SET
from tests.architecture import surface
from tests.servers import previous_protocol

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
PACKAGE = TESTS.parent / "redis_locks"
ERRORS = [
    error
    for error in vars(exceptions).values()
    if isinstance(error, type) and issubclass(error, exceptions.LockError)
]


def rows(page: str) -> dict[str, list[str]]:
    """Return the cells of each row of the tables of a page, by the first one."""
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    found: dict[str, list[str]] = {}
    for first, *others in (line.split("|") for line in lines):
        found.setdefault(first.strip(" `"), [cell.strip() for cell in others])
    return found


def test_the_api_page_has_all_that_users_may_import_and_of_locks_and_holds_nothing_else() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    described = re.findall(r"^\.\. auto\w+:: (\S+)((?:\n   .*)*)", page, re.MULTILINE)
    names = {path.rpartition(".")[2] for path, _ in described}
    # pytest reads its plugin, and docs/howto/testing.md says what a user gets by it.
    whole = {path for path, _ in described} | {"redis_locks.testing.pytest_plugin"}
    for path in set(surface.MODULES) - whole:
        module = import_module(path)
        for name in surface.exported(module):
            if isinstance(getattr(module, name), (type, FunctionType)):
                assert name in names, path
    for name, options in described:
        if name in {"redis_locks.Lock", "redis_locks.Hold"}:
            members = set(re.findall(r"(\w+)(?:,|$)", options.partition(":members:")[2]))
            assert members == set(surface.members(getattr(redis_locks, name.rpartition(".")[2])))


@pytest.mark.parametrize("error", ERRORS)
def test_each_exception_has_its_row(error: type[exceptions.LockError]) -> None:
    _, sqlstate, status = rows("exceptions")[error.__name__]
    assert error is getattr(redis_locks, error.__name__)
    assert getattr(error, "sqlstate", "") == sqlstate
    raised = error("text")
    answered = answers.answer_to(raised).status if answers.is_answered(raised) else 500
    assert answered == int(status)


def test_each_check_has_its_row() -> None:
    modules = (
        *(configuration, configured, fencing, row_locks, task_order, view_checks, view_locks),
    )
    ids = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, str) and re.fullmatch(r"redis_locks\.[EW]\d+", value)
    }
    assert ids == {first for first in rows("checks") if first.startswith("redis_locks.")}


def test_each_signal_has_its_row() -> None:
    sent = {
        name for name in signals.__all__ if isinstance(getattr(signals, name), signals.LockSignal)
    }
    assert sent == {
        first for first in rows("events") if re.fullmatch(r"(lock|run|deadlock)_\w+", first)
    }


@pytest.mark.parametrize(
    ("what", "limits"),
    [
        ("name of a lock", [MAX_NAME_BYTES]),
        ("locks in one hold", [MAX_SET]),
        ("permits of a semaphore", [MAX_CAPACITY]),
        ("max_waiting", [MOST_WAITING]),
        ("lease", [MIN_LEASE]),
        ("PREFIX", [validation.MAX_PREFIX_BYTES]),
        ("PARTITIONS", [validation.MAX_PARTITIONS]),
        ("REPLICAS", [validation.MAX_REPLICAS]),
        ("result of a `run_once` job", [MAX_RESULT_BYTES]),
        ("attempts of a `run_once` job", [MOST_ATTEMPTS]),
        ("attempts of an optimistic transaction", [MAX_ATTEMPTS]),
        (
            "holders and waiters that a listing shows for each lock",
            [MOST_WAITERS_LISTED, MOST_WAITERS],
        ),
        ("Retry-After", [answers.MAX_RETRY_AFTER]),
    ],
)
def test_the_limits_are_those_of_the_code(what: str, limits: list[float]) -> None:
    (said,) = rows("limits")[what]
    for limit in limits:
        assert re.search(rf"(?<![\d,.]){limit:,}(?![\d,])", said), said


def test_each_key_that_a_script_spells_has_a_row() -> None:
    """On the page for users, and in the map for contributors."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.lua"))
    tails = re.findall(r'\btag \.\. "(\w+)', code)
    tails += re.findall(r'"(\w+)', "".join(re.findall(r"^local DONE_KEY.*", code, re.MULTILINE)))
    assert len(tails) > 10
    for page in (DOCS / "reference" / "keys.md", TESTS.parent / "ARCHITECTURE.md"):
        listed = re.findall(r"^\| `P\{\w\}:(\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(tails) <= set(listed), page


def test_the_protocol_s_number_is_that_of_the_scripts() -> None:
    assert f"**{previous_protocol.OURS}** now" in (DOCS / "reference" / "keys.md").read_text(
        encoding="utf-8"
    )


def test_each_public_class_and_function_is_on_the_page_of_the_api() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    whole = set(re.findall(r"^\.\. automodule:: (\S+)$", page, re.MULTILINE))
    shown = {
        path.rpartition(".")[2]
        for path in re.findall(r"^\.\. auto\w+:: (\S+)$", page, re.MULTILINE)
    }
    reviewed = (TESTS / "architecture" / "public_api.txt").read_text(encoding="utf-8")
    modules = re.findall(r"^## module (\S+)\n(.*?)(?=^## |\Z)", reviewed, re.MULTILINE | re.DOTALL)
    assert len(modules) > 10
    for module, text in modules:
        names = set(re.findall(r"^(?:async )?(?:class|def) (\w+)", text, re.MULTILINE))
        if module not in whole | {"redis_locks.exceptions", "redis_locks.testing.pytest_plugin"}:
            assert set() == names - shown, module
