"""``manage.py compare`` and ``manage.py demo``, as a user runs them."""

from __future__ import annotations

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from urllib.parse import urlencode

import psutil
import pytest
import redis

from demo_project.bank.strategies import available
from redis_locks.testing.server import EmbeddedServer
from tests.demo.driving import ADDRESS
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--seconds", "0.05", "--workers", "2", "--accounts", "hot", "--rounds", "1"]
SHORT += ["--table-seconds", "0"]
LONG = ["--seconds", "10", "--workers", "1", "--rounds", "3", "--strategies", "script"]
LONG += ["--table-seconds", "0"]


def environment_with(database: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "DJANGO_SETTINGS_MODULE"}}
    return {**kept, "DEMO_DATABASE": str(database), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_with(tmp_path / "demo.sqlite3")


def manage(
    environment: dict[str, str], *arguments: str, within: float = 100
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


@contextmanager
def demo(
    environment: dict[str, str], *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A demo that measures for long, its site, and what it said until it began to measure."""
    command = [sys.executable, "manage.py", "demo", "--port", "0", *LONG, *arguments]
    with subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("Comparing"):
                    break
            found = ADDRESS.match(said)
            assert found, said + process.communicate()[1]
            yield process, found[1], said
        finally:
            process.kill()
            process.communicate()


@pytest.mark.ci
@pytest.mark.timeout(200)
def test_the_site_is_there_before_anything_is_measured_and_a_taken_port_is_said(
    environment: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with demo(environment, "--port", port) as (process, url, said):
            assert f"Port {port} is taken" in said
            assert f":{port}/" not in url
            with urllib.request.urlopen(url, timeout=20) as page:  # noqa: S310
                assert "Demo bank" in page.read().decode()
                assert "default-src 'self'" in page.headers["Content-Security-Policy"]
            process.send_signal(signal.SIGINT)
            assert ["CommandError: Stopped by Ctrl-C."] == process.communicate()[1].splitlines()
    assert 128 + signal.SIGINT == process.returncode


@pytest.mark.ci
@pytest.mark.timeout(400)
def test_a_second_demo_refuses_and_leaves_the_first_one_s_login_and_run_alone(
    environment: dict[str, str],
) -> None:
    with demo(environment) as (first, url, said):
        second = manage(environment, "demo", "--port", "0", *LONG)
        assert 1 == second.returncode
        assert "" == second.stdout
        assert f"A demo already runs on this database: {url}" in second.stderr
        compared = manage(environment, "compare", *SHORT)
        assert 1 == compared.returncode
        assert (
            "A comparison is already running. It is Comparison 1, run by process "
            f"{gethostname()} {first.pid}."
        ) in compared.stderr
        typed = re.search(r"^ +(.* locks list)$", said, re.MULTILINE)
        assert typed
        assert "REDIS_URL" not in typed[1]
        listed = subprocess.run(  # noqa: S602 - as a user types it
            typed[1],
            shell=True,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "bank:comparison" in listed.stdout, listed.stderr
        first.send_signal(signal.SIGTERM)
        assert ["CommandError: Stopped by SIGTERM."] == first.communicate()[1].splitlines()
    assert 128 + signal.SIGTERM == first.returncode
    assert 0 == manage(environment, "demo", "--once", *SHORT).returncode


def bank_server_of(environment: dict[str, str]) -> psutil.Process:
    """The process of the bank's server, beside which a comparison has one of its own."""
    url = Path(f"{environment['DEMO_DATABASE']}.server").read_text()
    with redis.Redis.from_url(url) as client:
        return psutil.Process(client.info("server")["process_id"])


def start_from_page(url: str, page: str, button: str) -> None:
    """Press a button, as a browser does."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(f"{url}{page}", timeout=60) as shown:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown.read().decode())
    assert token
    fields = urlencode({"csrfmiddlewaretoken": token[1]}).encode()
    browser.open(f"{url}{button}", fields, timeout=60).close()


def actors_of(process: subprocess.Popen[str], module: str) -> list[psutil.Process]:
    """The processes that the demo has started to run this module, once there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = psutil.Process(process.pid).children(recursive=True)
        if found := [one for one in children if module in " ".join(one.cmdline())]:
            return found
        time.sleep(0.01)
    raise AssertionError(f"No process runs {module}.")


@pytest.mark.ci
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("page", "button", "module", "end"),
    [
        ("ledger/", "ledger/start/", "bank.ledger.clerk", signal.SIGINT),
        ("problems/", "problems/lease/", "bank.problems.actor", signal.SIGTERM),
        ("ledger/", "ledger/start/", "bank.ledger.clerk", None),
    ],
)
def test_an_experiment_ends_with_the_demo(
    environment: dict[str, str], page: str, button: str, module: str, end: signal.Signals | None
) -> None:
    with demo(environment) as (process, url, _said):
        start_from_page(url, page, button)
        actors = actors_of(process, module)
        if end is None:
            bank_server_of(environment).kill()
        else:
            process.send_signal(end)
        # Alone, the experiment goes on for minutes. A busy machine needs some seconds for the rest.
        said = process.communicate(timeout=20)[1]
    assert re.fullmatch(r"CommandError: .+\n", said), said
    assert not psutil.wait_procs(actors, timeout=5)[1]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("port", "variables", "said"),
    [
        ("99999", {}, "CommandError: The site cannot use port 99999: ports end at 65535."),
        ("0", {"DATABASE_URL": "bank:secret"}, "DATABASE_URL names no database: .+"),
        # Nothing listens at port 1.
        (
            "0",
            {"DATABASE_URL": "postgresql://somebody:secret@127.0.0.1:1/bank"},
            "CommandError: The database does not answer: .+",
        ),
        ("0", {"REDIS_URL": "bank:secret"}, "REDIS_URL names no server: .+"),
        ("0", {"REDIS_URL": "redis://:secret/x@host"}, "REDIS_URL names no server: .+ %2F.+"),
    ],
)
def test_what_a_demo_cannot_use_is_said_in_one_line(
    environment: dict[str, str], port: str, variables: dict[str, str], said: str
) -> None:
    result = manage({**environment, **variables}, "demo", "--port", port)
    assert re.fullmatch(f"{said}\n", result.stderr)
    assert "secret" not in result.stderr
    assert 1 == result.returncode


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
    # Rows survive a crash of the machine, as the table of strategies says.
    assert "synchronous=FULL" in report["versions"]["database"]
    assert report["parameters"]["rounds"] == 1
    assert report["status"] == "finished"
    assert len(report["medians"]) == len(available())
    assert any("conserved the money" in finding["text"] for finding in report["findings"])


@pytest.mark.ci
@pytest.mark.timeout(200)
def test_an_actor_that_is_stopped_ends_with_a_demo_that_is_killed(
    environment: dict[str, str],
) -> None:
    with demo(environment) as (process, url, _said):
        start_from_page(url, "problems/", "problems/freeze/")
        actors = actors_of(process, "bank.problems.actor")
        until(lambda: psutil.STATUS_STOPPED in map(state_of, actors))
        process.kill()
        # Another process may reap it, so a zombie counts as ended.
        until(lambda: {state_of(actor) for actor in actors} <= {psutil.STATUS_ZOMBIE, None})


def state_of(process: psutil.Process) -> str | None:
    """What the kernel says of a process; None if it is gone."""
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return None
