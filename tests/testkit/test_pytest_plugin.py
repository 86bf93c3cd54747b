"""The fixtures for other people's test suites."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis

from redis_locks import Lock, inspection
from redis_locks.testing import assert_locked
from redis_locks.testing.server import EmbeddedServer
from tests.support.children import ROOT, run_python
from tests.support.configuration import get_settings

CONFTEST = """
from django.conf import settings

pytest_plugins = ["redis_locks.testing.pytest_plugin"]

nowhere = "unix:///nonexistent/production.sock"
servers = {"default": nowhere, "billing": nowhere}
settings.configure(REDIS_LOCKS={"SERVERS": servers, "WAIT": 0, "PREFIX": "production"})
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

def test_the_server_stands_in_for_named_ones(redis_locks):
    with redis_lock("report"):
        assert_released("report", using="billing")
        with redis_lock("report", using="billing", wait=0, reentrant=False):
            assert_locked("report", using="billing")
"""


NEAREST_CONFTEST = """
import pytest
from django.conf import settings
from redis_locks.testing import override_locks

pytest_plugins = ["redis_locks.testing.pytest_plugin"]

settings.configure(REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/production.sock", "WAIT": 0})

@pytest.fixture(scope="session", autouse=True)
def early():
    from redis_locks import redis_lock
    with redis_lock("early"):  # the suite's setting is there already
        yield
"""

NEAREST_SUITE = """
import unittest
import pytest
from redis_locks import LockLost, LockNotAvailable, redis_lock
from redis_locks.testing import assert_released, held, override_locks

def outcome():
    try:
        with redis_lock("a", wait=0):
            pass
    except LockNotAvailable:
        return "busy"
    except LockLost:
        return "lost"
    return "granted"

@pytest.fixture
def a_fixture():
    with override_locks("lost"):
        yield

def test_the_setting():
    assert outcome() == "granted"

def test_a_fixture_is_nearer(a_fixture):
    assert outcome() == "lost"

@pytest.mark.override_locks("busy")
def test_a_marker_is_nearer_than_a_fixture(a_fixture):
    assert outcome() == "busy"

@override_locks("busy")
def test_a_decorator_is_nearer_than_a_fixture(a_fixture):
    assert outcome() == "busy"

@pytest.mark.override_locks("lost")
@override_locks("busy")
def test_a_decorator_is_nearer_than_a_marker():
    assert outcome() == "busy"

@pytest.mark.override_locks("busy")
def test_a_block_is_nearest():
    with override_locks("lost"):
        assert outcome() == "lost"

def test_the_fixtures_server_is_nearer_than_the_setting(redis_locks):
    with redis_lock("real"), redis_locks.client() as client:
        assert [*client.scan_iter(match="*real*")]
    assert_released("real")

@pytest.fixture
def what_a_fixture_meets():
    return outcome()

@pytest.mark.override_locks("busy")
def test_fixtures_meet_what_the_marker_says(what_a_fixture_meets):
    assert what_a_fixture_meets == "busy"

@override_locks("lost")
class Tests(unittest.TestCase):
    def test_its_class(self):
        assert outcome() == "lost"

    @pytest.mark.override_locks("busy")
    def test_a_marker(self):
        assert outcome() == "busy"

    @override_locks("granted")
    def test_a_decorator(self):
        assert outcome() == "granted"

class AsyncTests(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.override_locks("busy")
    async def test_a_marker(self):
        with pytest.raises(LockNotAvailable):
            async with redis_lock("a", wait=0):
                pass

@held("a")
def test_one_lock_is_busy():
    assert outcome() == "busy"
    with redis_lock("b", wait=0):
        pass
"""

ASYNC_CONFTEST = """
from django.conf import settings

pytest_plugins = ["redis_locks.testing.pytest_plugin"]

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "redis_locks"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/production.sock", "WAIT": 0},
)
"""

ASYNC_SUITE = """
import asyncio

import pytest
from django.contrib.auth.models import Group
from django.http import HttpResponse

from redis_locks import LockLost, LockNotAvailable, redis_lock
from redis_locks.testing import assert_locked, assert_released, lose_lock, override_locks

pytestmark = pytest.mark.asyncio

@redis_lock("report:{number}")
async def report(number):
    assert_locked(f"report:{number}")
    return number

@redis_lock("view:{pk}")
async def view(request, pk):
    return HttpResponse("done")

@pytest.mark.parametrize("number", [1, 2])  # each on a loop of its own
async def test_on_the_fixtures_server(redis_locks, number):
    assert [number, 3] == await asyncio.gather(report(number), report(3))
    assert_released("report:3")

async def test_a_loss(redis_locks):
    with pytest.raises(LockLost):
        async with redis_lock("a"):
            lose_lock("a")
            await asyncio.Event().wait()

@pytest.mark.override_locks("busy")
async def test_marked(async_rf):
    with pytest.raises(LockNotAvailable):
        await report(1)
    assert (await view(async_rf.get("/"), pk=1)).status_code == 423

@override_locks("unavailable")
async def test_decorated(async_rf):
    assert (await view(async_rf.get("/"), pk=1)).status_code == 503

@pytest.mark.override_locks("granted")
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.django_db(transaction=True)
async def test_with_a_database(again):
    async with redis_lock("group"):
        await Group.objects.acreate(name="unique")
    assert await Group.objects.aexists()
"""


def run_suite(folder: Path, conftest: str, suite: str, *options: str) -> str:
    """Return what pytest prints of somebody else's suite, without anything of ours around it."""
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_suite.py").write_text(suite)
    without = {"REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
    environment = {key: value for key, value in os.environ.items() if key not in without}
    pytest_here = ["-m", "pytest", "-q", "-pno:cacheprovider", "-pno:xdist", "--rootdir=."]
    env = {**environment, "PYTHONPATH": str(ROOT)}
    result = run_python(*pytest_here, *options, ".", cwd=folder, env=env)
    return result.stdout + result.stderr


def test_a_suite_with_the_fixture_needs_no_server_and_its_tests_do_not_meet(tmp_path: Path) -> None:
    printed = run_suite(tmp_path, CONFTEST, SUITE, "-pno:django")
    assert "4 passed" in printed, printed
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.ci
def test_async_tests_of_a_suite_use_all_of_the_kit(tmp_path: Path) -> None:
    pytest.importorskip("pytest_asyncio")
    scope = "asyncio_default_fixture_loop_scope=function"
    # A warning would be an error of a careful suite.
    printed = run_suite(tmp_path, ASYNC_CONFTEST, ASYNC_SUITE, "-Werror", "-o", scope)
    assert "7 passed" in printed, printed


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


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.ci)])
def test_the_override_that_is_nearest_to_a_test_counts(tmp_path: Path, workers: int) -> None:
    setting = "-o=override_locks=granted"
    parallel = ["-pxdist", f"-n{workers}"] if workers else []
    printed = run_suite(
        tmp_path, NEAREST_CONFTEST, NEAREST_SUITE, "-pno:django", setting, *parallel
    )
    assert "13 passed" in printed, printed


@pytest.mark.ci
def test_a_setting_that_is_no_outcome_is_refused(tmp_path: Path) -> None:
    printed = run_suite(
        tmp_path, NEAREST_CONFTEST, NEAREST_SUITE, "-pno:django", "-o=override_locks=free"
    )
    assert "outcome must be 'granted'" in printed, printed
