"""The models behind permissions and admin: no table, no rows, nothing that gets in the way."""

from __future__ import annotations

import io
import json

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db
def test_migrate_creates_the_permissions_and_no_table() -> None:
    found = Permission.objects.filter(content_type__app_label="redis_locks")
    assert {"view_lock", "release_lock", "cancel_waiter"} == {each.codename for each in found}
    assert not [
        table for table in connection.introspection.table_names() if table.startswith("redis_locks")
    ]


@pytest.mark.django_db
def test_the_migrations_are_complete() -> None:
    call_command("makemigrations", "redis_locks", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
@pytest.mark.parametrize("options", [{}, {"use_base_manager": True}])
def test_dumpdata_is_not_disturbed(options: dict[str, bool]) -> None:
    out = io.StringIO()
    call_command("dumpdata", "redis_locks", stdout=out, **options)
    assert [] == json.loads(out.getvalue())


def test_their_text_cannot_mislead() -> None:
    lock, waiter = apps.get_app_config("redis_locks").get_models()
    assert r"a\nb\u202e" == str(lock(name="a\nb\u202e"))
    assert r"t\n" == str(waiter("t\n"))
