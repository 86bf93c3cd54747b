"""``manage.py compare`` and ``manage.py demo``, as a user runs them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from socket import gethostname
from urllib.parse import urlencode

import psutil
import pytest
import redis

from demo_project.bank.strategies import available
from redis_locks.testing.server import EmbeddedServer
from tests.demo.driving import ROOT, Site, demo, manage
from tests.support.waiting import until

pytestmark = pytest.mark.ci

SHORT = ["--seconds", "0.05", "--workers", "2", "--accounts", "hot", "--rounds", "1"]
SHORT += ["--table-seconds", "0"]
# Measures for so long that its test is over before.
LONG = ["--port", "0", "--seconds", "10", "--workers", "1", "--rounds", "20"]
LONG += ["--strategies", "script", "--table-seconds", "0"]
MEASURING = "Comparing"


@pytest.mark.timeout(200)
def test_the_site_is_there_before_anything_is_measured_and_a_taken_port_is_said(
    environment: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with demo(environment, *LONG, "--port", port, until=MEASURING) as site:
            assert f"Port {port} is taken" in site.said
            with urllib.request.urlopen(site.url, timeout=20) as page:  # noqa: S310
                assert "default-src 'self'" in page.headers["Content-Security-Policy"]
            assert [False, True, True, False, False] == toolbar_shown(site)
            site.process.send_signal(signal.SIGINT)
            assert "CommandError: Stopped by Ctrl-C.\n" == site.process.communicate()[1]
    assert 128 + signal.SIGINT == site.process.returncode


def toolbar_shown(site: Site) -> list[bool]:
    """Whether a browser sees the debug toolbar's panel before, while and after it asks for it."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    pages = [
        browser.open(f"{site.url}{query}", timeout=60)
        for query in ("", "?toolbar=on", "", "?toolbar=off", "")
    ]
    return [b"djdt-LocksPanel" in page.read() for page in pages]


@pytest.mark.timeout(400)
def test_a_second_demo_refuses_and_leaves_the_first_one_s_login_and_run_alone(
    environment: dict[str, str],
) -> None:
    with demo(environment, *LONG, until=MEASURING) as first:
        second = manage(environment, "demo", *LONG)
        assert (1, "") == (second.returncode, second.stdout)
        assert f"A demo already runs on this database: {first.url}" in second.stderr
        compared = manage(environment, "compare", *SHORT)
        assert 1 == compared.returncode
        assert (
            "A comparison is already running. It is Comparison 1, run by process "
            f"{gethostname()} {first.process.pid}."
        ) in compared.stderr
        typed = re.search(r"^ +(.* locks list)$", first.said, re.MULTILINE)
        assert typed
        listed = subprocess.run(  # noqa: S602 - as a user types it
            typed[1], shell=True, env=environment, cwd=ROOT, capture_output=True, check=False
        )
        assert b"bank:comparison" in listed.stdout, listed.stderr
        first.process.send_signal(signal.SIGTERM)
        assert "CommandError: Stopped by SIGTERM.\n" == first.process.communicate()[1]
    assert 128 + signal.SIGTERM == first.process.returncode
    assert 0 == manage(environment, "demo", "--once", *SHORT).returncode


def actors_of(site: Site, page: str, button: str, module: str) -> list[psutil.Process]:
    """Press a button of a page; return the processes that then run this module."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(f"{site.url}{page}", timeout=60) as shown:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown.read().decode())
    assert token
    fields = urlencode({"csrfmiddlewaretoken": token[1]}).encode()
    browser.open(f"{site.url}{page}{button}", fields, timeout=60).close()

    def found() -> list[psutil.Process]:
        children = psutil.Process(site.process.pid).children(recursive=True)
        return [child for child in children if module in " ".join(child.cmdline())]

    until(found, within=60)
    return found()


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("page", "button", "module", "end"),
    [
        ("ledger/", "start/", "bank.ledger.clerk", signal.SIGINT),
        ("problems/", "lease/", "bank.problems.actor", signal.SIGTERM),
        ("ledger/", "start/", "bank.ledger.clerk", None),
    ],
    ids=["interrupted", "terminated", "without-server"],
)
def test_an_experiment_ends_with_the_demo(
    environment: dict[str, str], page: str, button: str, module: str, end: signal.Signals | None
) -> None:
    with demo(environment, *LONG, until=MEASURING) as site:
        actors = actors_of(site, page, button, module)
        if end is None:
            # The bank's server, beside which a comparison has one of its own.
            url = Path(f"{environment['DEMO_DATABASE']}.server").read_text()
            with redis.Redis.from_url(url) as client:
                psutil.Process(client.info("server")["process_id"]).kill()
        else:
            site.process.send_signal(end)
        # Alone, the experiment goes on for minutes. A busy machine needs some seconds for the rest.
        said = site.process.communicate(timeout=20)[1]
    assert re.fullmatch(r"CommandError: .+\n", said), said
    assert not psutil.wait_procs(actors, timeout=5)[1]


@pytest.mark.timeout(200)
def test_an_actor_that_is_stopped_ends_with_a_demo_that_is_killed(
    environment: dict[str, str],
) -> None:
    with demo(environment, *LONG, until=MEASURING) as site:
        actors = actors_of(site, "problems/", "freeze/", "bank.problems.actor")
        until(lambda: psutil.STATUS_STOPPED in map(state_of, actors))
        site.process.kill()
        # Another process may reap it, so a zombie counts as ended.
        until(lambda: {state_of(actor) for actor in actors} <= {psutil.STATUS_ZOMBIE, None})


def state_of(process: psutil.Process) -> str | None:
    """What the kernel says of a process; None if it is gone."""
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return None


@pytest.mark.parametrize(
    ("port", "variables", "said"),
    [
        ("99999", {}, "CommandError: The site cannot use port 99999: ports end at 65535."),
        ("0", {"DATABASE_URL": "oops://me:secret@host/bank"}, "DATABASE_URL names no database: .+"),
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


@pytest.mark.timeout(200)
def test_compare_prints_json_that_a_program_can_read(
    redis_server: EmbeddedServer, environment: dict[str, str]
) -> None:
    environment["REDIS_URL"] = redis_server.url
    assert 0 == manage(environment, "migrate", "--verbosity=0").returncode
    result = manage(environment, "compare", "--json", *SHORT)
    assert 0 == result.returncode, result.stderr
    report = json.loads(result.stdout)
    for row in report["measurements"]:
        assert row["transfers"] > 0, row
        assert row["strategy"] == "unprotected" or (row["conserved"] and not row["overdrawn"]), row
    assert len(available()) == len(report["measurements"]) == len(report["medians"])
    # Rows survive a crash of the machine, as the table of strategies says.
    assert "synchronous=FULL" in report["versions"]["database"]
    assert ("finished", 1) == (report["status"], report["parameters"]["rounds"])


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_three_runs_do_not_contradict_each_other(environment: dict[str, str]) -> None:
    """One may leave open what another one found; none finds the opposite."""
    more = ["--json", "--seconds", "0.1", "--workers", "1", "2", "10", "--rounds", "5"]
    more += ["--strategies", "optimistic", "watch_packed", "redis_lock"]
    assert 0 == manage(environment, "demo", "--once", *SHORT).returncode
    said: dict[tuple[str, ...], set[str]] = {}
    for _ in range(3):
        report = json.loads(manage(environment, "compare", *more, within=300).stdout)
        for row in report["crossovers"]:
            for word in ("better", "rival_better"):
                for workers in row[word]:
                    pair = (row["accounts"], row["strategy"], row["rival"], workers)
                    said.setdefault(pair, set()).add(word)
    assert said
    assert [] == [pair for pair, words in said.items() if len(words) > 1]
