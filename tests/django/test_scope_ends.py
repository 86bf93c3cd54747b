"""The end of a transaction that does not end as usual: its connection is closed, or its process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from redis_locks import Lock, inspection, redis_lock
from redis_locks.testing import assert_released
from redis_locks.testing.server import EmbeddedServer

ROOT = Path(__file__).parents[2]


def test_after_its_connection_was_closed_a_transaction_keeps_no_hold(
    name: str, database: str
) -> None:
    with transaction.atomic(using=database):
        connections[database].close()
        with Lock(name, database=database, wait=0):
            pass
        assert_released(name)


ENDS_IN_A_TRANSACTION = """
import sys, django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["redis_locks"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    REDIS_LOCKS={"CONNECTION": sys.argv[1]},
)
django.setup()
from django.db import transaction
from redis_locks import Lock
transaction.atomic().__enter__()
with Lock(sys.argv[2], lease=30, wait=0):
    pass
"""


def test_a_process_that_ends_in_a_transaction_leaves_the_lock_to_its_lease(
    name: str, redis_server: EmbeddedServer
) -> None:
    """Nobody knows whether that transaction is committed, so the next holder waits."""
    command = [sys.executable, "-c", ENDS_IN_A_TRANSACTION, redis_server.url, name]
    subprocess.run(command, cwd=ROOT, check=True, timeout=50)
    assert inspection.lock(name) is not None
    inspection.force_release(name)


def _depth(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(str(len(connections["default"].atomic_blocks)))


urlpatterns = [
    path("one/<str:name>/", redis_lock("outer:{name}")(_depth)),
    path("two/<str:name>/", redis_lock("outer:{name}")(redis_lock("inner:{name}")(_depth))),
]


@pytest.mark.urls(__name__)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locks", ["one", "two"])
def test_two_locks_around_a_view_open_one_transaction(
    name: str, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    assert Client().post(f"/{locks}/{name}/").content == b"1"
