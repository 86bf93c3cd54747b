"""Servers that are started by a script of our own in place of the usual program."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from redis_locks.testing.server import find_binary


@contextlib.contextmanager
def started_by(script: Path, command: str) -> Iterator[None]:
    """Inside, `script` starts servers: it runs `command`, with the usual program as {server}."""
    program = shlex.quote(str(find_binary()))
    script.write_text(f"#!/bin/sh\n{command.format(server=program)}\n")
    script.chmod(0o700)
    usual = os.environ.get("REDIS_LOCKS_SERVER")
    os.environ["REDIS_LOCKS_SERVER"] = str(script)
    try:
        yield
    finally:
        if usual is None:
            del os.environ["REDIS_LOCKS_SERVER"]
        else:
            os.environ["REDIS_LOCKS_SERVER"] = usual
