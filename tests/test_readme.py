"""The examples of README and of the docs run, and what they say of commands, links and settings is so."""

from __future__ import annotations

import ast
import contextlib
import re
import runpy
import shlex
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.apps import apps
from django.db import connection
from django.db.models import Model
from django.http import HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import path

from redis_locks import LockAlert
from redis_locks.conf.settings import Settings, problems
from redis_locks.management.commands.locks import Command
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import held
from tests.tasks import celery_app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTING = (DOCS / "howto" / "testing.md").read_text(encoding="utf-8")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "README.md", *DOCS.rglob("*.md")))
    if "_build" not in path.parts
}
EXAMPLE = re.compile(
    r"^( *)(?:```python|<!-- given)\n(.*?)^\1(?:```|-->)", re.DOTALL | re.MULTILINE
)
COMMAND = re.compile(
    r"^(?:\$ )?manage\.py locks (.*?)(?: +#.*)?$|`manage\.py locks ([^`]+)`", re.MULTILINE
)
LINK = re.compile(r"(?<!`)\]\((?![a-z]+:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


def examples(text: str) -> Iterator[str]:
    """Yield the Python blocks, and what a page takes as given, which stands in comments that readers don't see."""
    for indent, code in EXAMPLE.findall(text):
        yield re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)


@pytest.fixture
def namespace(
    client: redis.Redis, redis_server: EmbeddedServer, request: pytest.FixtureRequest
) -> Iterator[dict[str, Any]]:
    """What all examples take as given; those of a page build on each other, as a reader does."""
    celery_app.configure(redis_server.url)
    known = dict(apps.all_models["ledger"])
    yield {
        # A model must be an app's, and a task's name be used once.
        "__name__": f"tests.ledger.{request.node.name}",
        "client": client,
        "build_report": lambda fence: None,
    }
    # The next page may have a model of the same name.
    apps.all_models["ledger"].clear()
    apps.all_models["ledger"].update(known)
    apps.clear_cache()


@pytest.mark.parametrize("page", [page for page in PAGES if any(examples(PAGES[page]))])
def test_the_examples_of_a_page_run_in_their_order(page: str, namespace: dict[str, Any]) -> None:
    """Every Python block runs; later ones use what earlier ones imported."""
    for example in examples(PAGES[page]):
        if "django.tasks" in example:
            pytest.importorskip("django.tasks", reason="Django 6.0 brought it")
        exec(compile(example, page, "exec"), namespace)  # noqa: S102 - our own text


def test_the_first_example_locks_by_account(namespace: dict[str, Any]) -> None:
    """The view of the first screen answers 423 while the same account is locked, not another."""
    first = next(examples(README))
    exec(first.replace("wait=5", "wait=0"), namespace)  # noqa: S102
    request = RequestFactory().post("/")
    withdraw = namespace["withdraw"]
    with held(namespace["redis_lock"]("account:1")):
        assert withdraw(request, account_id=1).status_code == 423
        assert withdraw(request, account_id=2).status_code == 200


def test_the_examples_of_tests_pass(namespace: dict[str, Any], rf: RequestFactory) -> None:
    """The tests that the docs show hold for the code that they show."""
    for example in examples(TESTING):
        exec(example, namespace)  # noqa: S102
    namespace["test_a_held_account_is_refused"](rf)
    namespace["test_a_payment_whose_lock_is_lost_is_reported"]()
    namespace["test_the_account_is_free_afterwards"](None, rf)


@pytest.mark.django_db
def test_the_test_case_of_the_docs_passes(namespace: dict[str, Any]) -> None:
    """A reader who tests with Django's own classes may copy it, too."""
    for example in examples(TESTING):
        exec(example, namespace)  # noqa: S102
    urls = (path("withdraw/<int:account_id>/", namespace["withdraw"]),)
    result = unittest.TestResult()
    with override_settings(ROOT_URLCONF=urls):
        unittest.defaultTestLoader.loadTestsFromTestCase(namespace["WithdrawTests"]).run(result)
    assert 2 == result.testsRun
    assert result.wasSuccessful(), result


def test_the_tutorial_s_view_pays_and_refuses(
    namespace: dict[str, Any], rf: RequestFactory
) -> None:
    """The lesson's view answers when the account is free, and its test passes."""
    for example in examples(PAGES["docs/tutorial/first-lock.md"]):
        exec(example, namespace)  # noqa: S102
    paid: HttpResponse = namespace["pay"](rf.post("/"), account_id=17)
    assert (200, b"paid") == (paid.status_code, paid.content)
    namespace["test_a_second_payment_is_refused"](rf)


@contextlib.contextmanager
def table_of(model: type[Model]) -> Iterator[None]:
    """Give a model of a page its table for a while."""
    with connection.schema_editor() as editor:
        editor.create_model(model)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


@pytest.mark.django_db(transaction=True)
def test_the_order_of_the_docs_is_shipped_and_refuses_a_late_write(
    namespace: dict[str, Any],
) -> None:
    """The fenced writes of the page reach the row, and its test passes."""
    for example in examples(PAGES["docs/howto/fencing.md"]):
        exec(example, namespace)  # noqa: S102
    orders = namespace["Order"].objects
    with table_of(namespace["Order"]):
        first, second = (orders.create(state="new").pk for _ in range(2))
        namespace["ship"](first)
        assert ["shipped", "new"] == list(orders.order_by("pk").values_list("state", flat=True))
        namespace["ship_all"]([second])
        assert 2 == orders.filter(state="shipped").count()
        namespace["test_a_late_write_is_refused"]()


@pytest.mark.django_db(transaction=True)
def test_the_job_queue_of_the_docs_does_each_job_once(namespace: dict[str, Any]) -> None:
    """A worker finds no job that it has done."""
    for example in examples(PAGES["docs/howto/rows.md"]):
        exec(example, namespace)  # noqa: S102
    jobs, work = namespace["Job"].objects, namespace["work"]
    with table_of(namespace["Job"]):
        jobs.create()
        jobs.create()
        assert [True, True, False] == [work() for _ in range(3)]
        assert 2 == jobs.filter(state="done").count()
        namespace["cancel"](jobs.first().pk)
        assert 1 == jobs.count()


def test_each_command_of_the_docs_is_one_that_there_is() -> None:
    """The verbs and options of `manage.py locks`, wherever a page shows them."""
    parser = Command().create_parser("manage.py", "locks")
    found = [match for text in PAGES.values() for match in COMMAND.findall(text)]
    assert len(found) > 20
    for line, inline in found:
        arguments = shlex.split((line or inline).partition(" > ")[0])
        if inline and len(arguments) == 1:  # a sentence names the verb
            arguments.append("--help")
        with contextlib.suppress(SystemExit):  # of --help
            parser.parse_args(arguments)


@pytest.mark.parametrize("page", PAGES)
def test_each_link_of_a_page_leads_to_a_file(page: str) -> None:
    """Links are relative, so they work in a checkout; docs/addresses.py makes addresses of them."""
    for target, _ in LINK.findall(PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_diagrams_are_those_of_their_script() -> None:
    """Change `docs/diagrams.py`, and run it: nobody edits a picture by hand."""
    drawn = runpy.run_path(str(DOCS / "diagrams.py"))["pictures"]()
    files = (DOCS / "diagrams").glob("*.svg")
    assert drawn == {file.name: file.read_text(encoding="utf-8") for file in files}


def test_readme_is_a_landing_page() -> None:
    assert len(README.splitlines()) <= 200


def test_readme_s_figures_are_the_benchmark_s() -> None:
    """The one row of figures in README stands in the table of the docs, too."""
    (row,) = re.findall(r"^\| forked, .*$", README, re.MULTILINE)
    measured = re.findall(r"([\d,.]+) \(([\d,.]+) ms\)", row)
    assert len(measured) == 3
    for rate, longest in measured:
        assert re.search(rf"\| {rate} \|.*\| {longest} \|", PAGES["docs/explain/benchmarks.md"]), (
            rate
        )


def test_ci_runs_the_two_commands_as_printed() -> None:
    """Both commands of README stand literally in README; CI calls the test command as it is."""
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in commands:
        assert command in (ROOT / "manage.py").read_text(encoding="utf-8")


def test_the_settings_table_is_complete_and_has_the_real_defaults() -> None:
    """Each entry of REDIS_LOCKS stands in the table with its default."""
    text = PAGES["docs/reference/settings.md"]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", text, re.MULTILINE))
    defaults = {name.upper(): str(value) for name, value in Settings._field_defaults.items()}
    assert {name: value.strip('"') for name, value in rows.items()} == defaults


@pytest.mark.parametrize("page", [page for page in PAGES if "REDIS_LOCKS = {" in PAGES[page]])
def test_the_settings_that_a_page_shows_are_valid(page: str) -> None:
    """Every REDIS_LOCKS of an example passes the checks that need no server."""
    for example in examples(PAGES[page]):
        for statement in ast.parse(example).body:
            if isinstance(statement, ast.Assign) and "REDIS_LOCKS" == ast.unparse(
                statement.targets[0]
            ):
                known = {"sentinels": "a:1,b:2", "LockAlert": LockAlert}
                value = eval(ast.unparse(statement.value), known)  # noqa: S307 - our own text
                assert [] == problems(value)
