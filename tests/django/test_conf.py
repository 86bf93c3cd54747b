"""REDIS_LOCKS: defaults, validation, and when it is read again."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from tests.support.configuration import Settings, get_settings, problems


def test_an_empty_setting_gives_the_defaults() -> None:
    with override_settings(REDIS_LOCKS={}):
        assert get_settings() == Settings()


def test_given_entries_replace_the_defaults() -> None:
    with override_settings(REDIS_LOCKS={"WAIT": None, "LEASE": 3, "CONFLICT_STATUS": 409}):
        assert get_settings() == Settings(wait=None, lease=3.0, conflict_status=409)


def test_the_settings_are_built_once_and_again_after_a_change() -> None:
    with override_settings(REDIS_LOCKS={"WAIT": 1}):
        first = get_settings()
        assert get_settings() is first
        with override_settings(REDIS_LOCKS={"WAIT": 2}):
            assert get_settings().wait == 2
        assert get_settings() == first


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("CONNECTION", None),
        ("CONNECTION", " "),
        ("PREFIX", "a{b"),
        ("WAIT", -1),
        ("WAIT", float("nan")),
        ("WAIT", "5"),
        ("LEASE", float("inf")),
        ("RENEW", 1),
        ("MAX_HOLD", 0),
        ("PARTITIONS", 0),
        ("REPLICAS", True),
        ("PARTITIONS", True),
        ("CONFLICT_STATUS", 200),
    ],
)
def test_a_wrong_value_is_refused_with_its_entry_and_a_fix(entry: str, value: object) -> None:
    (problem,) = problems({entry: value})
    assert problem.id == "redis_locks.E003"
    assert f"REDIS_LOCKS[{entry!r}]" in problem.msg
    assert problem.hint
    with (
        override_settings(REDIS_LOCKS={entry: value}),
        pytest.raises(ImproperlyConfigured, match=entry) as raised,
    ):
        get_settings()
    assert problem.hint in str(raised.value)


def test_a_connection_of_a_wrong_type_is_not_shown() -> None:
    (problem,) = problems({"CONNECTION": {"URL": "redis://:secret@host"}})
    assert "secret" not in str(problem)


def test_an_unknown_entry_suggests_the_nearest() -> None:
    (problem,) = problems({"CONECTION": "default"})
    assert (problem.id, problem.hint) == ("redis_locks.E002", "Did you mean 'CONNECTION'?")


def test_a_setting_that_is_no_dictionary_is_refused() -> None:
    (problem,) = problems("redis://host")
    assert problem.id == "redis_locks.E001"
