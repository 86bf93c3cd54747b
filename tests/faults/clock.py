"""A server whose clock can be set, alone on this machine."""

from __future__ import annotations

import contextlib
import mmap
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from redis_locks.testing.server import EmbeddedServer
from tests.faults.programs import started_by

SOURCE = Path(__file__).with_name("clock.c")


def why_not() -> str | None:
    """Return why no server's clock can be set here, or None."""
    if sys.platform != "linux":
        return "the server's clock is set by a preloaded library, which is written for Linux"
    if shutil.which("cc") is None:
        return "the library that sets the server's clock needs a C compiler"
    return None


class Clock:
    """The clock of one server; `step` sets it forward or back."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._offset_us = 0

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back if `seconds` is negative."""
        self._offset_us += round(seconds * 1_000_000)
        self._memory[:8] = self._offset_us.to_bytes(8, sys.byteorder, signed=True)


@contextlib.contextmanager
def server_with_a_clock(options: tuple[str, ...] = ()) -> Iterator[tuple[EmbeddedServer, Clock]]:
    """Start a server whose clock can be set."""
    with tempfile.TemporaryDirectory(prefix="rl-clock-", dir="/tmp") as name:
        folder = Path(name)
        library, offset, program = folder / "clock.so", folder / "offset", folder / "server"
        compiler = shutil.which("cc")
        assert compiler is not None, "see why_not()"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
            server = EmbeddedServer(options, use_environment=False)
            preload = f"LD_PRELOAD={library} STEPPED_CLOCK={offset}"
            with started_by(program, f'{preload} exec {{server}} "$@"'):
                server.start()
            try:
                yield server, Clock(memory)
            finally:
                server.stop()
