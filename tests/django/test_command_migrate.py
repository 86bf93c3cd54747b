"""`manage.py locks migrate`: several instances of a deploy migrate one database at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.support.world import until

SETTINGS = """
import os

SECRET_KEY = "only for tests"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "redis_locks", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
REDIS_LOCKS = {"CONNECTION": %r, "PREFIX": %r, "LEASE": 2}
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


class Project:
    """A project with one migration, which goes on when it is let go."""

    def __init__(self, folder: Path, server: str, prefix: str) -> None:
        self._folder = folder
        (folder / "manage.py").write_text(MANAGE)
        (folder / "shop_settings.py").write_text(SETTINGS % (server, prefix))
        package = folder / "shop" / "migrations"
        package.mkdir(parents=True)
        for each in (package, package.parent):
            (each / "__init__.py").touch()
        (package / "0001_initial.py").write_text(MIGRATION)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "locks", "migrate", *arguments],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def begun(self) -> subprocess.Popen[str]:
        """An instance that is in the middle of the migration."""
        instance = self.start()
        until(self.runs)
        return instance

    def let_go(self) -> None:
        (self._folder / "go on").touch()

    def runs(self) -> int:
        file = self._folder / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def project(tmp_path: Path, redis_server: EmbeddedServer, name: str) -> Project:
    return Project(tmp_path, redis_server.url, name)


def end(instance: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = instance.communicate(timeout=50)
    return instance.returncode, out


@pytest.mark.ci
def test_one_instance_migrates_and_the_others_find_nothing_left(project: Project) -> None:
    instances = [project.start() for _ in range(3)]
    until(project.runs)
    project.let_go()
    ended = [end(instance) for instance in instances]
    assert [0, 0, 0] == [status for status, _ in ended], ended
    assert 1 == project.runs()
    assert 1 == sum("Applying shop.0001_initial... OK" in out for _, out in ended)
    assert 2 == sum("No migrations to apply" in out for _, out in ended)


@pytest.mark.ci
def test_an_instance_that_was_killed_leaves_the_rest_to_the_next(project: Project) -> None:
    first = project.begun()
    first.kill()
    end(first)
    project.let_go()
    status, out = end(project.start())
    assert (0, True) == (status, "Applying shop.0001_initial... OK" in out), out


@pytest.mark.ci
def test_while_one_migrates_another_says_who_does_or_whether_anything_is_left(
    project: Project,
) -> None:
    first = project.begun()
    status, out = end(project.start("--wait", "0"))
    assert 75 == status
    assert "migrate:default" in out
    assert "locks migrate" in out
    assert 1 == end(project.start("--check"))[0]
    project.let_go()
    assert 0 == end(first)[0]
    assert 0 == end(project.start("--check"))[0]


@pytest.mark.ci
def test_what_stands_behind_the_dashes_goes_to_migrate(project: Project) -> None:
    status, out = end(project.start("--", "shop", "--plan"))
    assert (0, 0) == (status, project.runs())
    assert "shop.0001_initial" in out


def test_without_redis_nothing_is_migrated(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, "redis://127.0.0.1:1", name)
    assert 69 == end(project.start())[0]
    assert 0 == project.runs()
