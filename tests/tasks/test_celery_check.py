"""``manage.py check`` finds locks above task decorators in modules that nobody has imported."""

from __future__ import annotations

import logging
import sys

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.test import modify_settings

from tests.support.checks import check_task_order

APPS = [f"tests.tasks.{app}" for app in ("wrong_order", "right_order", "broken")]


@pytest.fixture(autouse=True)
def installed() -> object:
    with modify_settings(INSTALLED_APPS={"append": APPS}):
        yield


@pytest.mark.filterwarnings("ignore::celery.exceptions.DuplicateTaskNameWarning")
def test_the_check_finds_the_wrong_order_and_nothing_else() -> None:
    found = [error for error in run_checks(tags=["redis_locks"]) if error.id == "redis_locks.E010"]
    assert [error.msg for error in found] == [
        "tests.tasks.wrong_order.tasks: redis_lock cannot decorate the task charge: its queue "
        "would run the function inside, without redis_lock."
    ]
    assert "    @shared_task\n    @redis_lock('account:{account_id}')\n    def charge" in str(
        found[0].hint
    )


def test_the_check_looks_only_at_the_apps_it_is_given() -> None:
    assert check_task_order([apps.get_app_config("right_order")]) == []


def test_a_module_that_cannot_be_imported_is_left_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "redis_locks"):
        assert check_task_order([apps.get_app_config("broken")]) == []
    assert "tests.tasks.broken.tasks" in caplog.text


def test_without_a_task_queue_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for queue in (
        "arq",
        "celery",
        "django_tasks",
        "dramatiq",
        "huey",
        "procrastinate",
        "rq",
        "taskiq",
    ):
        monkeypatch.delitem(sys.modules, queue, raising=False)
    assert check_task_order([apps.get_app_config("wrong_order")]) == []
