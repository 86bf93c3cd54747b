"""REDIS_LOCKS["TELEMETRY"]: what it starts, what it costs when off, and how it is checked."""

from __future__ import annotations

import importlib.util

import pytest
from django.test import override_settings

from tests.support import telemetry
from tests.support.checks import check_settings
from tests.support.children import run_script
from tests.support.events import TELEMETRY

OURS = [f"redis_locks.integrations.{name}" for name in ("opentelemetry", "prometheus")]

SCRIPT = f"""
import sys
import django

django.setup()
from redis_locks import redis_lock
from redis_locks.integrations import telemetry
from redis_locks.protocol import lock_events
from redis_locks.testing import override_locks

print([name for name in {OURS!r} if name in sys.modules], "prometheus_client" in sys.modules)
print(lock_events.observer.listens("acquired"))
telemetry.start(("prometheus", "opentelemetry"))
telemetry.start(("prometheus", "opentelemetry"))
with override_locks("granted"), redis_lock("a"):
    pass
from prometheus_client import REGISTRY
labels = {{"lock": "__main__.<module>", "mode": "exclusive", "outcome": "released"}}
print(REGISTRY.get_sample_value("redis_locks_hold_seconds_count", labels))
"""


WRONG = """
import django
from django.conf import settings

settings.REDIS_LOCKS = {"TELEMETRY": ["prometheus"], "LEASE": 0}
django.setup()
from django.core import checks
from redis_locks.integrations import telemetry

print([error.id for error in checks.run_checks(tags=["redis_locks"])], telemetry._started)
"""


def printed(script: str) -> list[str]:
    """Return the lines that a process of its own prints."""
    result = run_script(script)
    assert not result.returncode, result.stderr
    return result.stdout.splitlines()


def test_nothing_is_imported_until_the_setting_names_it_and_then_it_counts() -> None:
    assert ["[] False", "False", "1.0"] == printed(SCRIPT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("prometheus", "must be a list such as ['prometheus'], not 'prometheus'"),
        (["statsd"], "may name 'opentelemetry' and 'prometheus', not 'statsd'"),
        ([["prometheus"]], "may name 'opentelemetry' and 'prometheus', not ['prometheus']"),
    ],
)
def test_a_wrong_value_is_found_by_the_check(value: object, message: str) -> None:
    with override_settings(REDIS_LOCKS={"TELEMETRY": value}):
        (error,) = check_settings()
    assert "redis_locks.E003" == error.id
    assert f"REDIS_LOCKS['TELEMETRY'] {message}." == error.msg
    assert error.hint


def test_with_wrong_settings_django_starts_so_that_the_check_can_say_what_is_wrong() -> None:
    assert ["['redis_locks.E003'] set()"] == printed(WRONG)


def test_whatever_the_setting_may_name_can_be_started() -> None:
    assert set(TELEMETRY) == set(telemetry.CLASSES)


@pytest.mark.parametrize(
    ("name", "package"),
    [("opentelemetry", "opentelemetry-api"), ("prometheus", "prometheus-client")],
)
@pytest.mark.parametrize("parent", [True, False])
def test_a_missing_package_is_found_by_the_check(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, parent: bool
) -> None:
    def find_spec(module: str) -> None:
        if not parent:
            raise ModuleNotFoundError(module)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with override_settings(REDIS_LOCKS={"TELEMETRY": [name]}):
        (error,) = check_settings()
    assert f"the package {package} is not installed" in error.msg
