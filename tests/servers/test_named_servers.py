"""SERVERS: several servers, each with a name that `using` chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from redis_locks import Lock, LockError, inspection, optimistic, run_once, statistics
from redis_locks.testing import assert_locked, assert_released
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import run

NOWHERE = "unix:///no-server"


@pytest.fixture(scope="module")
def billing() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as server:
        yield server


@pytest.fixture(autouse=True)
def servers(billing: EmbeddedServer, redis_server: EmbeddedServer) -> Iterator[None]:
    named = {"default": redis_server.url, "billing": billing.url}
    with override_settings(REDIS_LOCKS={"SERVERS": named}):
        yield


def test_a_lock_lives_on_the_server_that_it_names(name: str) -> None:
    with Lock(name, using="billing") as theirs, Lock(name, wait=0) as ours:
        assert theirs.fencing_token != ours.fencing_token
        assert_locked(name, using="billing")
        assert 2 == len({inspection.lock(name, using=using) for using in (None, "billing")})
    assert_released(name, using="billing")


def test_the_default_server_is_the_same_with_and_without_its_name(name: str) -> None:
    with Lock(name), Lock(name, using="default", wait=0) as again:
        assert again
    with Lock(name, using="default"), pytest.raises(LockError, match="its own thread"):
        Lock(name, reentrant=False).acquire()


def test_all_that_takes_a_server_takes_its_name(name: str, billing: EmbeddedServer) -> None:
    run_once(name, using="billing")(lambda: None)()
    assert "new" == run_once(name).status().state
    assert "done" == run_once(name, using="billing").status().state
    optimistic.run(lambda pipe: pipe.multi() or pipe.set(name, 1), name, using="billing")
    with billing.client() as client:
        assert b"1" == client.get(name)
    assert statistics.read("hour", using="billing") is not None
    with Lock(name, using="billing"):
        assert name in run("list", "--using", "billing")[0]
    assert "ok" in run("doctor", "--using", "billing")[0]


def test_the_command_names_the_servers() -> None:
    assert "Others: --using billing." in run("list")[1]
    assert "Others" not in run("list", "--using", "billing")[1]


def test_a_name_that_there_is_not_lists_those_that_there_are(name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"'bilings'.*SERVERS \(there are: billing, def"):
        Lock(name, using="bilings").acquire()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"SERVERS": ["billing"]}, "REDIS_LOCKS['SERVERS'] must be a dictionary"),
        ({"SERVERS": {"a.b": NOWHERE}}, "not with 'a.b'"),
        ({"SERVERS": {"": NOWHERE}}, "not with ''"),
        ({"SERVERS": {"billing": 5}}, "REDIS_LOCKS['SERVERS']['billing'] must be a string"),
        ({"SERVERS": {"billing": "redsi://x"}}, "'redsi://x' has the scheme"),
        ({"SERVERS": {"default": NOWHERE}, "CONNECTION": NOWHERE}, "both name the default server"),
    ],
)
def test_the_check_finds_what_is_wrong_with_one(settings: object, message: str) -> None:
    with override_settings(REDIS_LOCKS=settings):
        (error,) = run_checks(tags=["redis_locks"])
    assert message in error.msg
    assert error.hint


def test_warnings_say_which_server_they_are_about(redis_server: EmbeddedServer) -> None:
    named = {"default": NOWHERE, "billing": redis_server.url, "slow": f"{NOWHERE}?socket_timeout=0"}
    with override_settings(REDIS_LOCKS={"SERVERS": named}):
        (warning,) = run_checks(tags=["redis_locks"])
    assert "redis_locks.W006" == warning.id
    assert "REDIS_LOCKS['SERVERS']['billing']" in str(warning.hint)
