"""`manage.py locks doctor`: its exit codes, and what it prints for people and for programs."""

from __future__ import annotations

import re

from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import fails, run
from tests.support.diagnosis import running


def test_the_command_fails_with_1_when_there_is_an_error() -> None:
    with running("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server:
        assert "1 of 16 checks found an error." == fails("doctor", "--using", server.url)


def test_warnings_alone_do_not_fail_the_command(private_server: EmbeddedServer) -> None:
    out, err = run("doctor", "--using", private_server.url)
    assert "" == err
    assert re.search(r"^ok +server +unix://.* answers\.$", out, re.MULTILINE)
    assert re.search(r"^warning +persistence +No append-only file", out, re.MULTILINE)
    assert re.search(r"^ +Fix: CONFIG SET appendonly yes", out, re.MULTILINE)
