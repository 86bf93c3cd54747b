"""`manage.py locks migrate`: several instances of a deploy migrate one database at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.support.world import until

SETTINGS = """
import os

SECRET_KEY = "only for tests"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "redis_locks", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
REDIS_LOCKS = {"CONNECTION": os.environ["SERVER"], "LEASE": 2}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "shop_settings"
execute_from_command_line(sys.argv)
"""
# Each run leaves a line. The table is made last, so that a second run at once would fail.
MIGRATION = """
import os, time
from django.db import migrations, models


def run(apps, schema_editor):
    with open("runs", "a") as file:
        print(os.getpid(), file=file)
    for _ in range(200):
        if os.path.exists("go on"):
            return
        time.sleep(0.05)


class Migration(migrations.Migration):
    initial = True
    atomic = False
    operations = [
        migrations.RunPython(run),
        migrations.CreateModel("Item", [("id", models.BigAutoField(primary_key=True))]),
    ]
"""


@pytest.fixture
def project(tmp_path: Path, redis_server: EmbeddedServer, name: str) -> Iterator[Path]:
    """A project with one migration, which goes on when the file "go on" is there."""
    (tmp_path / "manage.py").write_text(MANAGE)
    (tmp_path / "shop_settings.py").write_text(f"{SETTINGS}\nREDIS_LOCKS['PREFIX'] = {name!r}\n")
    package = tmp_path / "shop" / "migrations"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    (package / "0001_initial.py").write_text(MIGRATION)
    with_prefix = {**os.environ, "SERVER": redis_server.url}
    environment = {
        key: value for key, value in with_prefix.items() if key != "DJANGO_SETTINGS_MODULE"
    }
    PROJECTS[tmp_path] = environment
    yield tmp_path
    del PROJECTS[tmp_path]


PROJECTS: dict[Path, dict[str, str]] = {}


def start(project: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "locks", "migrate", *arguments],
        cwd=project,
        env=PROJECTS[project],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(instance: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = instance.communicate(timeout=50)
    return instance.returncode, out


def runs(project: Path) -> int:
    file = project / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.ci
def test_one_instance_migrates_and_the_others_find_nothing_left(project: Path) -> None:
    instances = [start(project) for _ in range(3)]
    until(lambda: runs(project))
    (project / "go on").touch()
    ended = [end(instance) for instance in instances]
    assert [0, 0, 0] == [status for status, _ in ended], ended
    assert 1 == runs(project)
    assert 1 == sum("Applying shop.0001_initial... OK" in out for _, out in ended)
    assert 2 == sum("No migrations to apply" in out for _, out in ended)


@pytest.mark.ci
def test_an_instance_that_was_killed_leaves_the_rest_to_the_next(project: Path) -> None:
    first = start(project)
    until(lambda: runs(project))
    first.kill()
    end(first)
    (project / "go on").touch()
    status, out = end(start(project))
    assert (0, True) == (status, "Applying shop.0001_initial... OK" in out), out


@pytest.mark.ci
def test_one_that_has_waited_for_too_long_says_who_migrates(project: Path) -> None:
    first = start(project)
    until(lambda: runs(project))
    status, out = end(start(project, "--wait", "0"))
    assert 75 == status
    assert "migrate:default" in out
    assert "locks migrate" in out
    (project / "go on").touch()
    assert 0 == end(first)[0]


@pytest.mark.ci
def test_check_tells_whether_anything_is_left_and_waits_for_nobody(project: Path) -> None:
    first = start(project)
    until(lambda: runs(project))
    assert 1 == end(start(project, "--check"))[0]
    (project / "go on").touch()
    assert 0 == end(first)[0]
    assert 0 == end(start(project, "--check"))[0]


@pytest.mark.ci
def test_what_stands_behind_the_dashes_goes_to_migrate(project: Path) -> None:
    status, out = end(start(project, "--", "shop", "--plan"))
    assert (0, 0) == (status, runs(project))
    assert "shop.0001_initial" in out


def test_without_redis_nothing_is_migrated(project: Path) -> None:
    PROJECTS[project]["SERVER"] = "redis://127.0.0.1:1"
    assert 69 == end(start(project))[0]
    assert 0 == runs(project)
