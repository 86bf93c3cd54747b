"""The fixtures for other people's test suites."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from redis_locks import Lock, inspection
from redis_locks.conf.settings import get_settings
from redis_locks.testing import assert_locked
from redis_locks.testing.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from django.conf import settings

pytest_plugins = ["redis_locks.testing.pytest_plugin"]

settings.configure(
    REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/production.sock", "WAIT": 0, "PREFIX": "production"}
)
"""

SUITE = """
from pathlib import Path
from redis_locks import redis_lock
from redis_locks.conf.settings import get_settings
from redis_locks.testing import assert_locked, assert_released

@redis_lock("report")
def report():
    assert_locked("report")

def test_a_lock_is_taken(redis_locks):
    report()
    assert_released("report")
    assert get_settings().wait == 0
    Path("pid").write_text(str(redis_locks.pid))

def test_a_test_that_leaves_a_lock_behind(redis_locks):
    redis_lock("left").acquire()
    assert_locked("left")

def test_another_test_does_not_meet_it(redis_locks):
    assert_released("left")
"""


def test_a_suite_with_the_fixture_needs_no_server_and_its_tests_do_not_meet(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    without = {"REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
    environment = {key: value for key, value in os.environ.items() if key not in without}
    command = [sys.executable, "-m", "pytest", "-q", "-pno:django", "-pno:cacheprovider"]
    result = subprocess.run(
        [*command, "-pno:xdist", "--rootdir=.", "."],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in result.stdout, result.stdout + result.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_locks_of_a_test_are_on_the_fixtures_server_under_a_prefix_of_their_own(
    redis_locks: EmbeddedServer, name: str
) -> None:
    prefix = get_settings().prefix
    assert prefix.startswith("test-")
    with Lock(name), redis_locks.client() as client:
        assert_locked(name)
        assert [info.name for info in inspection.locks()] == [name]
        assert client.exists(f"{prefix}{{0}}:lock:{name}")


def test_the_fixtures_server_is_the_test_processs(
    redis_locks: EmbeddedServer, client: redis.Redis
) -> None:
    assert client.ping()
    assert redis_locks.url == os.environ["REDIS_LOCKS_TEST_URL"]
