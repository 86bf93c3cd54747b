"""The examples of README and docs run, and what they say of commands, links, settings is so."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import re
import runpy
import shlex
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.apps import apps
from django.contrib.admin import site
from django.db import connection
from django.db.models import Model
from django.test import RequestFactory, override_settings
from django.urls import URLPattern

from redis_locks import LockAlert, lock_timeout
from redis_locks.conf.settings import Settings, problems
from redis_locks.management.commands.locks import Command
from redis_locks.testing import held
from redis_locks.testing.server import EmbeddedServer
from tests import tenants
from tests.tasks import celery_app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "README.md", *DOCS.rglob("*.md")))
    if "_build" not in path.parts
}
EXAMPLE = re.compile(
    r"^( *)(?:```python|<!-- given|<!-- then)\n(.*?)^\1(?:```|-->)", re.DOTALL | re.MULTILINE
)
COMMAND = re.compile(
    r"^(?:\$ )?manage\.py locks (.*?)(?: +#.*)?$|`manage\.py locks ([^`]+)`", re.MULTILINE
)
FIRST_LOCK = "docs/tutorial/first-lock.md"
OPTIONAL = ("django.tasks", "adrf", "dramatiq", "huey", "ninja", "rq")
"""Packages that examples need and not every environment has. A page has such examples last."""
LINK = re.compile(r"(?<!`)\]\((?![a-z]+:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


def examples(text: str) -> Iterator[str]:
    """Yield the Python blocks.

    Comments that readers don't see say what is given, and what is so then.
    """
    for indent, code in EXAMPLE.findall(text):
        yield re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)


@pytest.fixture
def namespace(
    client: redis.Redis, redis_server: EmbeddedServer, request: pytest.FixtureRequest, name: str
) -> Iterator[dict[str, Any]]:
    """What all examples take as given; those of a page build on each other, as a reader does."""
    celery_app.configure(redis_server.url)
    known = dict(apps.all_models["ledger"])
    with override_settings(REDIS_LOCKS={"PREFIX": name, "STATISTICS": False}):
        yield {
            # A model must be an app's, and a task's name be used once.
            "__name__": f"tests.ledger.{request.node.name}",
            "client": client,
            "build_report": lambda fence: None,
        }
    # The next page may have a model of the same name.
    for model in {*apps.all_models["ledger"].values()} - {*known.values()}:
        if site.is_registered(model):
            site.unregister(model)
    apps.all_models["ledger"].clear()
    apps.all_models["ledger"].update(known)
    apps.clear_cache()


@contextlib.contextmanager
def tables() -> Iterator[Callable[[], None]]:
    """Yield what gives new models of a page their tables, which go in the end."""
    known = {*apps.all_models["ledger"].values()}
    made: list[type[Model]] = []

    def make() -> None:
        with connection.schema_editor() as editor:
            for model in {*apps.all_models["ledger"].values()} - known - {*made}:
                editor.create_model(model)
                made.append(model)

    try:
        yield make
    finally:
        with connection.schema_editor() as editor:
            for model in reversed(made):
                editor.delete_model(model)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", [page for page in PAGES if any(examples(PAGES[page]))])
def test_the_examples_of_a_page_work(
    page: str, namespace: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Every block runs, in order. Comments that readers don't see call what the examples define.

    Tests that a page shows are called at its end, with the fixtures that they ask for.
    """
    with tables() as give_tables:
        for example in examples(PAGES[page]):
            for package in OPTIONAL:
                if re.search(rf"^(?:from|import) {re.escape(package)}\b", example, re.MULTILINE):
                    pytest.importorskip(package)
            exec(compile(example, page, "exec"), namespace)  # noqa: S102 - our own text
            give_tables()
        for name, shown in list(namespace.items()):
            if name.startswith("test_"):
                asked = inspect.signature(shown).parameters
                shown(**{fixture: request.getfixturevalue(fixture) for fixture in asked})
            elif name.endswith("Tests"):
                run_test_case(shown, namespace["urlpatterns"])


def run_test_case(shown: type[unittest.TestCase], urls: list[URLPattern]) -> None:
    """Run the tests of a class that a page shows."""
    result = unittest.TestResult()
    with override_settings(ROOT_URLCONF=tuple(urls)):
        unittest.defaultTestLoader.loadTestsFromTestCase(shown).run(result)
    assert result.testsRun
    assert result.wasSuccessful(), result


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_what_an_example_defines_is_used(page: str) -> None:
    """An example that is only defined may be broken inside: an example or a comment calls it."""
    defined: set[str] = set()
    used: set[str] = set()
    for statement in (
        part for example in examples(PAGES[page]) for part in ast.parse(example).body
    ):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            by_django = re.search(
                "^@(receiver|admin.register)", ast.unparse(statement), re.MULTILINE
            )
            by_a_runner = re.match("test_|.*Tests$", statement.name)
            defined |= set() if by_django or by_a_runner else {statement.name}
        used |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    assert set() == defined - used


def test_the_first_example_locks_by_account(namespace: dict[str, Any]) -> None:
    """The view of the first screen answers 423 while the same account is locked, not another."""
    for example in examples(README):
        exec(example, namespace)  # noqa: S102 - our own text
    request = RequestFactory().post("/")
    withdraw = namespace["withdraw"]
    with held("account:1"), lock_timeout(0):
        assert 423 == withdraw(request, account_id=1).status_code
        assert 200 == withdraw(request, account_id=2).status_code
    assert {"day": "monday"} == namespace["report"]("monday") == namespace["report"]("monday")
    asyncio.run(namespace["export"]())
    namespace["send_invoice"](7)


def test_a_second_shell_of_the_tutorial_can_import_its_module(namespace: dict[str, Any]) -> None:
    """The first shell holds the lock then: an import that takes it fails before the call."""
    module = next(code for code in examples(PAGES[FIRST_LOCK]) if code.startswith("# reports.py"))
    with held("report:monday"), lock_timeout(0):
        exec(module, namespace)  # noqa: S102 - our own text


def test_readme_can_be_read_in_three_minutes() -> None:
    """Words in prose; tables, code and addresses are not counted."""
    prose = re.sub(r"^```.*?^```|^\\|.*?$", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(README.splitlines()) <= 150
    assert len(re.sub(r"\]\([^)]*\)", "]", prose).split()) <= 800


def test_all_guides_stand_in_one_file_without_what_readers_do_not_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import one_file

    text = one_file.all_howtos()
    assert {*one_file.pages()} == {path.stem for path in (DOCS / "howto").glob("*.md")} - {"index"}
    for page in one_file.pages():
        title = PAGES[f"docs/howto/{page}.md"].splitlines()[0]
        assert 1 == text.count(f"{title}\n")
    assert "<!-- " not in text


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


@pytest.mark.parametrize("page", sorted({*PAGES, *(path.name for path in ROOT.glob("*.md"))}))
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: str) -> None:
    """Links are relative, so they work in a checkout; docs/addresses.py makes addresses of them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "](http:" not in text
    for target, anchor in LINK.findall(text):
        found = ((ROOT / page).parent / target).resolve()
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{target}#{anchor}"


def anchors(text: str) -> set[str]:
    """Return what links may name after a "#": the headings, as sites for code spell them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_the_diagrams_are_those_of_their_script() -> None:
    """Change `docs/diagrams.py`, and run it: nobody edits a picture by hand."""
    drawn = runpy.run_path(str(DOCS / "diagrams.py"))["pictures"]()
    files = (DOCS / "diagrams").glob("*.svg")
    assert drawn == {file.name: file.read_text(encoding="utf-8") for file in files}


def test_the_rules_for_prometheus_are_those_of_their_script() -> None:
    """Change `DEFAULT_ALERTS` or `docs/alert_rules.py`, and run that."""
    written = runpy.run_path(str(DOCS / "alert_rules.py"))["rules"]()
    assert written == (DOCS / "monitoring" / "alerts.yml").read_text(encoding="utf-8")


def test_readme_is_a_landing_page() -> None:
    assert len(README.splitlines()) <= 200


def test_readme_s_figures_are_the_benchmark_s() -> None:
    """Each figure of README stands with its longest wait in one row of the docs, too."""
    (table,) = re.findall("<!-- benchmark of 10 -->.*?<!-- /", README, re.DOTALL)
    measured = re.findall(r"([\d,.]+) \(([\d,.]+) ms\)", table)
    assert len(measured) == 9
    for rate, longest in measured:
        row = rf"^\|.* {rate} .* {longest} .*\|$"
        assert re.search(row, PAGES["docs/explain/benchmarks.md"], re.MULTILINE), rate


def test_ci_runs_the_two_commands_as_printed() -> None:
    """Both commands of README stand literally in README; CI calls the test command as it is."""
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    printed = runpy.run_path(str(ROOT / "manage.py"))["HOW_TO_INSTALL"].splitlines()
    for command in commands:
        assert command in printed


def test_the_settings_table_is_complete_and_has_the_real_defaults() -> None:
    """Each entry of REDIS_LOCKS stands in the table with its default."""
    text = PAGES["docs/reference/settings.md"]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", text, re.MULTILINE))
    defaults = {name.upper(): str(value) for name, value in Settings._field_defaults.items()}
    assert {name: value.strip('"') for name, value in rows.items()} == defaults


@pytest.mark.parametrize("page", [page for page in PAGES if "REDIS_LOCKS = {" in PAGES[page]])
def test_the_settings_that_a_page_shows_are_valid(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every REDIS_LOCKS of an example passes the checks that need no server."""
    # Where the reader's project has the module of an example.
    monkeypatch.setitem(sys.modules, "shop.tenants", sys.modules[tenants.__name__])
    monkeypatch.setattr(tenants, "lock_name", tenants.name_on_server, raising=False)
    for example in examples(PAGES[page]):
        for statement in ast.parse(example).body:
            if isinstance(statement, ast.Assign) and "REDIS_LOCKS" == ast.unparse(
                statement.targets[0]
            ):
                known = {"sentinels": "a:1,b:2", "LockAlert": LockAlert}
                value = eval(ast.unparse(statement.value), known)  # noqa: S307 - our own text
                assert [] == problems(value)
