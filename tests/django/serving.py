"""The demo's site as a process of its own, for browsers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ports import free_ports


@contextmanager
def served(url: str, database: Path) -> Iterator[str]:
    """Serve the site over the Redis server at `url`; yields its address. See admin_site.py."""
    (port,) = free_ports(1)
    with subprocess.Popen(
        [sys.executable, "-u", str(Path(__file__).with_name("admin_site.py")), str(port)],
        env={**os.environ, "REDIS_URL": url, "DEMO_DATABASE": str(database)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert any("Quit the server" in line for line in process.stdout)
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
