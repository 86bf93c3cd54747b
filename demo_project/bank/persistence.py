"""What the bank's server writes to its disk: nothing, or each change before it answers."""

from __future__ import annotations

import time
from typing import Any

import redis
from django.conf import settings

_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.005


def no_own_server() -> str:
    """Why the server's persistence may not be changed for a measurement, or "" if it may."""
    if getattr(settings, "BANK_OWNS_SERVER", False):
        return ""
    return (
        "It changes how the server writes to its disk, which only a server of the demo's own "
        "allows. Leave REDIS_URL out."
    )


class Persistence:
    """Switches a server of our own between memory and AOF always."""

    def __init__(self, conn: redis.Redis) -> None:
        self._conn = conn
        self._on_disk = False

    def switch(self, *, on_disk: bool) -> None:
        """Have the server write each change to its disk before it answers, or write nothing.

        Blocks until the server does so.

        Raises:
            RuntimeError: The server did not begin to write in time.
        """
        if on_disk == self._on_disk:
            return
        self._on_disk = on_disk
        if on_disk:
            self._conn.config_set("appendfsync", "always")
        self._conn.config_set("appendonly", "yes" if on_disk else "no")
        if on_disk:
            self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = self._conn.info("persistence")
            rewriting = found["aof_rewrite_in_progress"] or found["aof_rewrite_scheduled"]
            if found["aof_enabled"] and not rewriting:
                return
            time.sleep(_LOOK_SECONDS)
        raise RuntimeError("The server did not begin to write its append-only file in time.")


def describe_persistence(conn: redis.Redis) -> str:
    """What the server writes to its disk, in a few words."""
    try:
        found: Any = conn.config_get("append*")
    except redis.ResponseError:
        return "unknown, as CONFIG is not allowed"
    if found.get("appendonly") == "yes":
        return f"AOF, fsync {found.get('appendfsync')}"
    return "in memory, no AOF"
