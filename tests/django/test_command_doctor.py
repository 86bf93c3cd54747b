"""`manage.py locks doctor`: its exit codes, and what it prints for people and for programs."""

from __future__ import annotations

import csv
import json
import re

from django.test import override_settings

from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import fails, run
from tests.django.command_line import Terminal
from tests.support.diagnosis import running


def test_the_command_fails_with_1_when_there_is_an_error() -> None:
    with running("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server:
        assert "1 of 16 checks found an error." == fails("doctor", "--using", server.url)


def test_the_command_fails_with_69_without_a_server() -> None:
    fails("doctor", "--using", "unix:///nonexistent/server.sock", code=69)


def test_warnings_alone_do_not_fail_the_command(private_server: EmbeddedServer) -> None:
    out, err = run("doctor", "--using", private_server.url)
    assert "" == err
    assert re.search(r"^ok +server +unix://.* answers\.$", out, re.MULTILINE)
    assert re.search(r"^warning +persistence +No append-only file", out, re.MULTILINE)
    assert re.search(r"^ +Fix: CONFIG SET appendonly yes", out, re.MULTILINE)


def test_programs_get_the_findings_too(private_server: EmbeddedServer) -> None:
    using = ["--using", private_server.url]
    documents = json.loads(run("doctor", "--json", *using)[0])
    rows = list(csv.DictReader(run("doctor", "--format", "csv", *using)[0].splitlines()))
    assert [row["check"] for row in rows] == [document["check"] for document in documents]
    assert {"ok", "warning"} == {row["level"] for row in rows}


def test_findings_are_readable_in_80_columns(private_server: EmbeddedServer) -> None:
    with Terminal("doctor", "--no-color", "--using", private_server.url) as terminal:
        status, shown = terminal.end()
    assert 0 == status
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert any(line.startswith("warning  persistence") for line in shown.splitlines())


def test_a_bad_setting_is_wrong_usage() -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": "nowhere"}):
        assert "there is no cache 'nowhere'" in fails("doctor", code=64)
