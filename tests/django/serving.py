"""The demo's site as a process of its own, for browsers."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ports import free_ports
from tests.support.children import Child, interpreter


@contextmanager
def served(url: str, database: Path) -> Iterator[str]:
    """Serve the site over the Redis server at `url`; yields its address. See admin_site.py."""
    (port,) = free_ports(1)
    env = {**os.environ, "REDIS_URL": url, "DEMO_DATABASE": str(database)}
    script = Path(__file__).with_name("admin_site.py")
    start = interpreter("-u", str(script), str(port), env=env, stderr=subprocess.DEVNULL)
    with Child(start) as process:
        while "Quit the server" not in process.line():
            pass
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        yield f"http://127.0.0.1:{port}"
