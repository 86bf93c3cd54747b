"""The database of the demo, and the Redis server of a demo that runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from redis import ConnectionPool

LOCK_SECONDS = 20
"""How long a transaction waits for another one's lock of the database."""

# A write locks a whole SQLite database: readers go on meanwhile, and writers queue from BEGIN on.
# With FULL, what was committed survives a crash of the machine, as it does on PostgreSQL.
_SQLITE = {
    "timeout": LOCK_SECONDS,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
}
_POSTGRESQL = {"options": f"-c lock_timeout={LOCK_SECONDS}s"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "django.db.backends.sqlite3": _SQLITE,
    "django.db.backends.postgresql": _POSTGRESQL,
}


def database(environment: Mapping[str, str], directory: Path) -> dict[str, Any]:
    """Return the entry of ``DATABASES``; options of the URL come before ours.

    Args:
        environment: Its ``DATABASE_URL``, or else its ``DEMO_DATABASE``, the path of an SQLite
            file, counts.
        directory: Where the SQLite file is if neither is set.

    Raises:
        ImproperlyConfigured: ``DATABASE_URL`` names no database.
    """
    url = environment.get("DATABASE_URL")
    if url:
        try:
            entry: dict[str, Any] = dict(dj_database_url.parse(url))
        except ValueError as error:
            # Without the URL, which may have a password in it.
            raise ImproperlyConfigured(
                f"DATABASE_URL names no database: {error} Give one as in "
                "postgresql://user:password@host/name or sqlite:////path/to/file."
            ) from None
    else:
        path = environment.get("DEMO_DATABASE", str(directory / "db.sqlite3"))
        entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
    entry["OPTIONS"] = _OPTIONS.get(entry["ENGINE"], {}) | entry.get("OPTIONS", {})
    return entry


def checked_address(url: str) -> str:
    """Return the address of a Redis server.

    Raises:
        ImproperlyConfigured: It is none.
    """
    try:
        ConnectionPool.from_url(url)
    except ValueError:
        # Without the reason, which may quote a part of the password.
        raise ImproperlyConfigured(
            "REDIS_URL names no server: give one as in redis://:password@host:6379/0, rediss:// or "
            "unix://. In a password, write / as %2F, ? as %3F, # as %23 and @ as %40."
        ) from None
    return url


def server_file(entry: Mapping[str, Any], directory: Path) -> Path:
    """Return where a demo on this entry of ``DATABASES`` leaves its own Redis server's address."""
    name = Path(str(entry["NAME"]))
    beside = name if name.is_absolute() else directory / name
    return beside.with_name(f"{beside.name}.server")


def running_server(entry: Mapping[str, Any], directory: Path) -> str | None:
    """Return the address of the Redis server that a running demo started, or None without one."""
    try:
        url = server_file(entry, directory).read_text().strip()
    except OSError:
        return None
    # A demo that was killed leaves the file; its server takes the socket along.
    return url if Path(url.removeprefix("unix://")).is_socket() else None
