"""manage.py check: what it says about REDIS_LOCKS, without a server."""

from __future__ import annotations

from io import StringIO

import pytest
import redis
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from redis_locks.checks import check_settings


def called_too_early() -> redis.Redis:
    raise AssertionError("a check must not call it: it may connect")


def ids(value: object) -> list[str | None]:
    with override_settings(REDIS_LOCKS=value):
        return [error.id for error in check_settings()]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"CONNECTION": "default"},
        {"CONNECTION": "unix:///nonexistent/nobody-listens.sock"},
        {"CONNECTION": f"{__name__}.called_too_early"},
    ],
)
def test_right_settings_pass_offline(value: object) -> None:
    assert ids(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["default"], ["redis_locks.E001"]),
        ({"LEESE": 5}, ["redis_locks.E002"]),
        ({"LEASE": 0, "WAIT": -1}, ["redis_locks.E003", "redis_locks.E003"]),
        ({"CONNECTION": 5}, ["redis_locks.E003"]),
        ({"CONNECTION": "nowhere"}, ["redis_locks.E004"]),
        ({"CONNECTION": "no.such.path"}, ["redis_locks.E004"]),
        ({"CONNECTION": "http://host"}, ["redis_locks.E004"]),
    ],
)
def test_each_fault_has_its_id(value: object, expected: list[str]) -> None:
    assert sorted(filter(None, ids(value))) == expected


def test_every_fault_comes_with_a_hint() -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": "nowhere", "LEASE": 0, "X": 1}):
        assert all(error.hint for error in check_settings())


@pytest.mark.django_db  # from Django 6.1 on, `check` asks SQLite what it supports
def test_the_check_command_reports_them() -> None:
    with (
        override_settings(REDIS_LOCKS={"LEASE": 0}),
        pytest.raises(SystemCheckError, match=r"redis_locks\.E003"),
    ):
        call_command("check", stdout=StringIO(), stderr=StringIO())
