"""README's examples run, and what it says of commands and settings is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import models
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View

from redis_locks.conf.settings import Settings
from tests.elsewhere import held

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def namespace(client: redis.Redis) -> dict[str, Any]:
    """What the examples take as given; they build on each other, as a reader does."""
    return {
        "__name__": "tests.ledger.readme",  # a model must be an app's
        "View": View,
        "models": models,
        "client": client,
        "build_report": lambda fence: None,
        "retry_page": lambda request, error: HttpResponse(status=503),
    }


def test_the_examples_run_in_the_order_in_which_they_stand(namespace: dict[str, Any]) -> None:
    """Every Python block runs; later ones use what earlier ones imported."""
    assert len(EXAMPLES) >= 5
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), namespace)  # noqa: S102 - our own text
    assert "REDIS_LOCKS" in namespace


def test_the_first_example_locks_by_account(namespace: dict[str, Any]) -> None:
    """The view of the first screen answers 423 while the same account is locked, not another."""
    exec(EXAMPLES[0].replace("wait=5", "wait=0").replace(": ...", ": return account_id"), namespace)  # noqa: S102
    request = RequestFactory().post("/")
    withdraw = namespace["withdraw"]
    with held(namespace["redis_lock"]("account:1")):
        assert withdraw(request, account_id=1).status_code == 423
        assert withdraw(request, account_id=2) == 2


def test_the_example_of_a_test_passes(namespace: dict[str, Any], rf: RequestFactory) -> None:
    """The test that README shows holds for the view that README shows."""
    exec(EXAMPLES[0], namespace)  # noqa: S102
    example = next(text for text in EXAMPLES if "override_locks" in text)
    exec(example, namespace)  # noqa: S102
    namespace["test_a_held_account_is_refused"](rf)


def test_ci_runs_the_two_commands_as_printed() -> None:
    """Both commands of README stand literally in README; CI calls the test command as it is."""
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in commands:
        assert command in (ROOT / "manage.py").read_text(encoding="utf-8")


def test_the_settings_table_is_complete_and_has_the_real_defaults() -> None:
    """Each entry of REDIS_LOCKS stands in the table with its default."""
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", README, re.MULTILINE))
    defaults = {name.upper(): str(value) for name, value in Settings._field_defaults.items()}
    assert {name: value.strip('"') for name, value in rows.items()} == defaults
