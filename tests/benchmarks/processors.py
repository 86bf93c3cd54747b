"""The two processors that are measured on: which process runs where, and what spins beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SERVER, CLIENTS = 0, 1
"""The processors of the server and of all clients."""

_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
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
    """Let a process have a processor before all others whenever it wants; return whether it may.

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
    """Let this process, and what it starts, run where clients do, and keep both processors awake.

    Waking an idle virtual processor costs as much as a round trip.
    """
    processors = os.sched_getaffinity(0)
    with ExitStack() as stack:
        for processor in (SERVER, CLIENTS):
            _goes_last(stack.enter_context(_spinning_on(processor)))
        pin(os.getpid(), CLIENTS)
        stack.callback(pin, os.getpid(), *processors)
        yield


@contextmanager
def busy() -> Iterator[None]:
    """Let a process of usual priority spin on each processor, beside the server and clients."""
    with _spinning_on(SERVER), _spinning_on(CLIENTS):
        yield


@contextmanager
def _spinning_on(processor: int) -> Iterator[int]:
    """Let a process spin there, and yield its id."""
    # Where Linux shares processors among sessions first (sched_autogroup), a priority counts only
    # within one. Server and clients have sessions of their own, too.
    command = [sys.executable, "-c", _SPIN, str(os.getpid())]
    with subprocess.Popen(command, start_new_session=True) as spinner:
        try:
            pin(spinner.pid, processor)
            yield spinner.pid
        finally:
            spinner.kill()


def _goes_last(pid: int) -> None:
    """Let a process and its session run only while nobody else wants the processor."""
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("19", encoding="ascii")
