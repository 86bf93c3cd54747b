from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import tomllib
from importlib import metadata
from importlib.resources import files
from pathlib import Path

import pytest

import redis_locks
from tests.support.children import ROOT, run_python

INSTALL = "python3 -m venv .venv && .venv/bin/python -m pip install -q -e"
DEMO_COMMAND = f"{INSTALL} '.[demo]' && .venv/bin/python manage.py demo"
TEST_COMMAND = f"{INSTALL} '.[test]' && .venv/bin/python -m pytest"


def run_manage_py_without_django(*arguments: str) -> subprocess.CompletedProcess[str]:
    # -S leaves site-packages out, and with it Django.
    return run_python("-S", "-E", "manage.py", *arguments)


def test_the_version_is_the_installed_distribution_s() -> None:
    assert metadata.version("django-redis-locks") == redis_locks.__version__


def test_the_package_says_that_it_is_typed() -> None:
    assert files("redis_locks").joinpath("py.typed").is_file()


def test_every_lua_file_beside_the_loader_is_part_of_a_script() -> None:
    from redis_locks import scripts

    lua = {entry.name for entry in files(scripts).iterdir() if entry.name.endswith(".lua")}
    folder = files(scripts)
    found = {f"{script.name}.lua" for script in scripts.ALL}
    for name in lua:
        text = folder.joinpath(name).read_text(encoding="utf-8")
        found |= {f"{part}.lua" for part in re.findall(r"^--include (\w+)$", text, re.MULTILINE)}
    assert found | {"_cluster.lua"} == lua


def test_manage_py_without_django_prints_both_commands_and_no_traceback() -> None:
    result = run_manage_py_without_django("demo")
    lines = result.stderr.splitlines()
    assert (1, "") == (result.returncode, result.stdout)
    assert [DEMO_COMMAND, TEST_COMMAND] == [line for line in lines if "venv" in line]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [DEMO_COMMAND, TEST_COMMAND])
def test_readme_has_the_commands_that_manage_py_prints(command: str) -> None:
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("command", [f"{DEMO_COMMAND} --once", TEST_COMMAND])
def test_the_ci_script_runs_readme_s_commands_as_printed(command: str) -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert command in [line.strip() for line in lines]


def test_the_changelog_names_only_what_the_package_exports() -> None:
    named = re.findall(r"`redis_locks\.(\w+)`", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert set() == set(named) - set(redis_locks.__all__)


def test_the_changelog_has_an_entry_for_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{redis_locks.__version__}]" in changes


def test_the_supported_versions_are_those_that_are_tested() -> None:
    """The classifiers, README and the sessions of nox name the same ones."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers = "\n".join(tomllib.load(file)["project"]["classifiers"])
    pythons = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    djangos = re.findall(r"Django :: (\d+\.\d+)$", classifiers, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Python {pythons[0]} to {pythons[-1]}, Django {djangos[0]} to {djangos[-1]}" in readme
    sessions = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    tested = re.findall(r'^    \("([\d.]+)", "([\d.]+)"\),$', sessions, re.MULTILINE)
    assert {*pythons} == {python for python, _ in tested}
    assert {*djangos} == {django for _, django in tested}


def test_a_release_is_uploaded_as_it_was_rehearsed() -> None:
    """By a Trusted Publisher: with attestations, and with no secret."""
    workflow = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    build, publish = workflow.split("\n  publish:\n")
    assert "run: python -m nox -s release\n" in build
    assert "id-token: write" in publish
    assert "id-token" not in build
    assert "attestations: true" in publish
    assert "secrets." not in workflow
    assert "run:" not in publish


def test_readme_names_the_floor_of_each_client() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        ranges = tomllib.load(file)["project"]["dependencies"]
    floors = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(ranges), re.MULTILINE))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for package, name in (("redis", "redis-py"), ("django-redis",) * 2, ("hiredis",) * 2):
        assert f"{name} {floors[package]} " in readme


SPACED = """
from pathlib import Path
from django.conf import settings
import redis_locks
from redis_locks.testing.server import EmbeddedServer

with EmbeddedServer(use_environment=False) as server:
    socket = Path("the server.sock").absolute()
    socket.symlink_to(server.url.removeprefix("unix://"))
    settings.configure(REDIS_LOCKS={"CONNECTION": f"unix://{socket}"})
    with redis_locks.Lock("a") as hold:
        print(redis_locks.__file__, hold.fencing_token > 0, sep="\\n")
"""


def test_paths_may_have_spaces() -> None:
    """The package's, with its scripts and the server that it starts, and the socket's."""
    with tempfile.TemporaryDirectory(prefix="rl ") as directory:
        copied = Path(directory, "redis_locks")
        shutil.copytree(ROOT / "redis_locks", copied, ignore=shutil.ignore_patterns("__pycache__"))
        told = run_python("-W", "error", "-c", SPACED, cwd=Path(directory), check=True)
    assert [str(copied / "__init__.py"), "True"] == told.stdout.splitlines()
