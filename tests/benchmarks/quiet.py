"""Keep the machine from being measured: processors that fall asleep, processes that wander."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER, CLIENTS = 0, 1
"""The processors of the server and of all clients."""

# Spins at the lowest priority there is, which yields at once to anybody else: waking an idle
# virtual processor costs as much as a round trip. Where Linux shares processors among sessions
# first (sched_autogroup), a priority counts only within one: so it gets a session of its own, which
# is the lowest, too. Else it would take half of the processor from clients and server.
_SPIN = """
import os, sys
from contextlib import suppress
os.setsid()
with suppress(OSError), open("/proc/self/autogroup", "w") as group:
    group.write("19")
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(0, {int(sys.argv[1])})
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def possible() -> bool:
    """Return whether processes can be pinned here."""
    return hasattr(os, "sched_setaffinity") and {SERVER, CLIENTS} <= os.sched_getaffinity(0)


def pin(pid: int, *processors: int) -> None:
    """Let a process, all its threads, run on these processors only."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), processors)


def goes_first(pid: int) -> bool:
    """Let a process have a processor whenever it wants one, before all others; whether that is allowed here.

    The time of what it does is then its own, however many others want the processors.
    """
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, OSError):  # another system, or nobody's administrator
        return False
    return True


@contextmanager
def on_clients_processor() -> Iterator[None]:
    """Let this process, and what it starts, run where clients do, and keep both processors awake."""
    processors = os.sched_getaffinity(0)
    with _awake():
        pin(os.getpid(), CLIENTS)
        try:
            yield
        finally:
            pin(os.getpid(), *processors)


@contextmanager
def _awake() -> Iterator[None]:
    """Keep both processors from falling asleep."""
    spinners = [
        subprocess.Popen([sys.executable, "-c", _SPIN, str(processor)])
        for processor in (SERVER, CLIENTS)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
