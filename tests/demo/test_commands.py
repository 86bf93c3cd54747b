"""``manage.py compare`` and ``manage.py demo``, as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import redis
from django.core.management import CommandError, call_command
from django.test import override_settings

from demo_project.bank.accounts import account_key
from demo_project.bank.compare.cells import account_ids
from demo_project.bank.strategies import available
from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--seconds", "0.05", "--workers", "2", "--accounts", "hot", "--rounds", "1"]
SHORT += ["--table-seconds", "0"]


def environment_with(database: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    return {**kept, "DEMO_DATABASE": str(database), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_with(tmp_path / "demo.sqlite3")


def manage(
    environment: dict[str, str], *arguments: str, within: float = 50
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("migrated") / "demo.sqlite3"
    assert manage(environment_with(database), "migrate", "--verbosity=0").returncode == 0
    return database


@pytest.fixture
def migrated(
    redis_server: EmbeddedServer, environment: dict[str, str], migrated_database: Path
) -> dict[str, str]:
    shutil.copy(migrated_database, environment["DEMO_DATABASE"])
    environment["REDIS_URL"] = redis_server.url
    return environment


@pytest.mark.long  # `.ci/run` does the same as README says
def test_demo_once_prints_table_and_login_and_ends_well(environment: dict[str, str]) -> None:
    result = manage(environment, "demo", "--once", *SHORT)
    assert result.returncode == 0, result.stderr
    assert "hot: 2 accounts" in result.stdout
    for strategy in available():
        assert re.search(rf"^  {strategy} +[0-9]", result.stdout, re.MULTILINE)
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert re.search(r"Log in as admin with the password \S+", result.stdout)
    assert "Open http" not in result.stdout


@pytest.mark.ci
def test_demo_serves_the_site_on_a_free_port_when_its_own_is_taken(
    environment: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "manage.py", "demo", "--port", port, *SHORT]
        with subprocess.Popen(
            [*command, "--strategies", "redis_lock"],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as demo:
            assert demo.stdout is not None
            try:
                url, lines = "", []
                for line in demo.stdout:
                    lines.append(line)
                    if found := re.search(r"Open (http://\S+)", line):
                        url = found[1]
                    if "Quit the server" in line:
                        break
                assert url
                assert f":{port}/" not in url
                said = "".join(lines)
                assert f" 1. {url}\n" in said
                assert f" 2. {url}admin/bank/comparison/\n" in said
                assert f"{url}admin/redis_locks/lock/\n" in said
                line = re.search(r"^ +(REDIS_URL=.* locks list)$", said, re.MULTILINE)
                assert line
                address = line[1].removeprefix("REDIS_URL=").split()[0].strip("'")
                with (
                    override_settings(REDIS_LOCKS={"CONNECTION": address}),
                    Lock("seen from a second terminal"),
                ):
                    typed = subprocess.run(  # noqa: S602 - as a user types it
                        line[1],
                        shell=True,
                        env=environment,
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                assert "seen from a second terminal" in typed.stdout, typed.stderr
                with urllib.request.urlopen(url, timeout=10) as page:  # noqa: S310
                    assert "Demo bank" in page.read().decode()
                    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
            finally:
                demo.send_signal(signal.SIGINT)
                demo.stdout.read()
    assert demo.returncode == 0


@pytest.mark.ci
def test_compare_prints_json_that_a_program_can_read(migrated: dict[str, str]) -> None:
    result = manage(migrated, "compare", "--json", *SHORT)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert len(report["measurements"]) == len(available())
    for row in report["measurements"]:
        assert row["transfers"] > 0
        assert row["strategy"] == "unprotected" or row["conserved"]
    assert report["versions"]["redis-py"]
    assert report["parameters"]["rounds"] == 1
    assert report["status"] == "finished"
    assert len(report["medians"]) == len(available())
    assert any("conserved the money" in finding["text"] for finding in report["findings"])


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_full_comparison_takes_less_than_three_minutes(migrated: dict[str, str]) -> None:
    """On a quiet machine: `pytest -n0 -s -m long -k three_minutes tests/demo` prints how long."""
    started = time.monotonic()
    result = manage(migrated, "compare", "--json", within=360)
    lasted = time.monotonic() - started
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    print(f"manage.py compare: {lasted:.0f} s, {len(report['measurements'])} measurements")  # noqa: T201
    assert len(report["measurements"]) == 4 * 4 * 2 * len(available())
    assert lasted < 180


@pytest.mark.long
def test_compare_prints_csv_that_a_program_can_read(migrated: dict[str, str]) -> None:
    result = manage(migrated, "compare", "--csv", *SHORT, "--strategies", "script", "--rounds", "2")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [("script", "1"), ("script", "2")] == [(row["strategy"], row["round"]) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0"], "seconds must be from 0.05 to 10"),
        (["--seconds", "nan"], "seconds must be from 0.05 to 10"),
        (["--seconds", "soon"], "could not convert"),
        (["--workers", "99"], "workers must be from 1 to 20"),
        (["--workers", "2", "2"], "each once"),
        (["--rounds", "0"], "rounds must be from 1 to 20"),
        (["--json", "--csv"], "not allowed with"),
        (["--strategies", "hope"], "invalid choice"),
        (["--table-seconds", "11"], "table_seconds must be 0 or from 0.05 to 10"),
    ],
)
def test_compare_refuses_numbers_out_of_bounds(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("compare", *arguments)


def test_compare_says_who_is_running_one_already(migrated: dict[str, str]) -> None:
    with Lock("bank:comparison", wait=0, label="a run of the test"):
        result = manage(migrated, "compare", *SHORT)
    assert result.returncode == 1
    assert "already running" in result.stderr
    assert "a run of the test" in result.stderr


@pytest.mark.long
def test_a_run_whose_process_was_killed_is_marked_and_cleared_away(
    migrated: dict[str, str], client: redis.Redis
) -> None:
    command = [sys.executable, "manage.py", "compare", *SHORT, "--seconds", "2"]
    first = account_key(account_ids("comparison-1", 1)[0])
    with subprocess.Popen([*command, "--strategies", "script"], env=migrated, cwd=ROOT) as run:
        deadline = time.monotonic() + 30
        while client.hget(first, "money") in (None, b"10000"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run.kill()
    look = (
        "from demo_project.bank.compare.runner import settle_interrupted as settle;"
        "from demo_project.bank.models import Comparison; settle();"
        "run = Comparison.objects.get(); print(run.status, run.error)"
    )
    # Its lock has to end first, with its lease.
    deadline, said = time.monotonic() + 30, ""
    while "interrupted The process that ran it ended" not in said:
        assert time.monotonic() < deadline, said
        said = manage(migrated, "shell", "-c", look).stdout
    assert not client.exists(first)


def test_compare_without_a_server_says_so(migrated: dict[str, str], tmp_path: Path) -> None:
    migrated["REDIS_URL"] = f"unix://{tmp_path}/nobody.sock"
    result = manage(migrated, "compare", *SHORT)
    assert result.returncode == 1
    assert "nobody.sock" in result.stderr
    assert "Traceback" not in result.stderr
