"""A private PostgreSQL server, and the database alias "postgres" on it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import OperationalError, connections
from django.db.utils import ConnectionHandler

ALIAS = "postgres"
PATIENCE = 60.0


def missing() -> str | None:
    """What there is not on this machine to run the tests on PostgreSQL, or None."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if find_binaries() is None:
        return "no PostgreSQL server programs found (on Debian: apt install postgresql)"
    return None


def find_binaries() -> str | None:
    """The directory of initdb and postgres; Debian keeps them off PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    places += [Path(on_path).resolve().parent] if on_path else []
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return str(place)
    return None


def _version(place: Path) -> float:
    try:
        return float(place.parent.name)
    except ValueError:
        return 0.0


def _unprivileged_user() -> str:
    """Whom to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@contextmanager
def server() -> Iterator[dict[str, Any]]:
    """The DATABASES entry of a server that ends with this block, or with this process."""
    binaries = find_binaries()
    assert binaries is not None
    script = Path(__file__).with_name("postgres_watchdog.py")
    watchdog = subprocess.Popen(
        [sys.executable, "-I", str(script), binaries, _unprivileged_user()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert watchdog.stdin is not None
    assert watchdog.stdout is not None
    try:
        readable, _, _ = select.select([watchdog.stdout], [], [], PATIENCE)
        directory = watchdog.stdout.readline().decode().strip() if readable else ""
        assert directory, "PostgreSQL did not start"
        entry = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": directory,
        }
        _until_it_answers(entry)
        yield entry
    finally:
        watchdog.stdin.close()
        watchdog.wait()
        watchdog.stdout.close()


def _until_it_answers(entry: dict[str, Any]) -> None:
    with configured(entry):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connections[ALIAS].ensure_connection()
            except OperationalError:
                # Nothing announces a listening socket.
                assert time.monotonic() < deadline, "PostgreSQL did not answer in time"
                time.sleep(0.02)
            else:
                return


@contextmanager
def configured(entry: dict[str, Any], alias: str = ALIAS) -> Iterator[str]:
    """Have `alias` among the databases for a while."""
    complete = ConnectionHandler().configure_settings({"default": dict(entry)})["default"]
    connections.settings[alias] = complete
    try:
        yield alias
    finally:
        if hasattr(connections._connections, alias):
            connections[alias].close()
            del connections[alias]
        del connections.settings[alias]
