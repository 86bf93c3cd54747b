"""Servers that have a fault, and what `manage.py locks doctor` finds on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis_locks.diagnosis import checks, client, rights, server_checks
from redis_locks.diagnosis.checks import REACHABLE, diagnose
from redis_locks.diagnosis.findings import Finding, Level
from redis_locks.testing.server import EmbeddedServer


@contextmanager
def running(*options: str) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(options, use_environment=False) as server:
        yield server


def found(using: str | None = None) -> dict[str, Finding]:
    return {finding.check: finding for finding in diagnose(using=using)}


def levels(using: str | None = None) -> dict[str, str]:
    """The checks that are not ok.

    How long a round trip takes depends on what else this machine does.
    """
    return {
        check: str(finding.level)
        for check, finding in found(using).items()
        if finding.level is not Level.OK and check != "latency"
    }


def as_user(server: EmbeddedServer, *rules: str) -> str:
    """The address for a user with these rights."""
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "app", "reset", "on", ">secret", *rules)
    return server.url.replace("unix://", "unix://app:secret@")
