"""What the app costs a process that takes no lock."""

from __future__ import annotations

import pytest

from tests.support.children import run_script

START = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "redis_locks"],
    REDIS_LOCKS={"CONNECTION": "redis://127.0.0.1:1/0"},
)
django.setup()
from django.views import View
from redis_locks import Lock, RedisLockMixin, Semaphore, optimistic, redis_lock, run_once

@redis_lock("account:{pk}")
def view(request, pk): ...

@optimistic(watch="account:{pk}")
def transfer(pipe, pk): ...

@run_once("report")
def report(): ...

class Account(RedisLockMixin, View):
    lock_name = "account:{pk}"

described = [Lock("report", wait=0), Semaphore("mail", 3)]
"""


@pytest.mark.parametrize("package", ["redis", "django_redis", "redis_locks.inspection"])
def test_what_no_lock_is_taken_with_is_not_imported_at_start(package: str) -> None:
    code = f"{START}\nsys.exit({package!r} in sys.modules)"
    assert 0 == run_script(code).returncode
