"""`manage.py locks` in processes of its own, some of them on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
LOCKS = [sys.executable, "-m", "django", "locks"]

# Opening it makes it the terminal of the session that this process leads.
_ON_A_TERMINAL = (
    "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
)


def environment() -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in {"NO_COLOR", "COLUMNS", "LINES"}
    }
    # Python's development mode and coverage may be on; warnings of the tests' own are not.
    return {**kept, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(ROOT)}


class Process:
    """One process of the command, without a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*LOCKS, *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Without a terminal, as under cron, wherever the tests run.
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        self._process.communicate(timeout=PATIENCE)

    def line(self) -> str:
        """The next line of stdout."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert readable, "the command printed nothing in time"
        return self._process.stdout.readline().rstrip("\n")

    def say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def end(self, text: str | None = None) -> tuple[int, str, str]:
        """Wait for the end; return status, stdout and stderr."""
        out, err = self._process.communicate(text, timeout=PATIENCE)
        return self._process.returncode, out, err


def locks(*arguments: str, text: str | None = None) -> tuple[int, str, str]:
    """Run the command to its end; return status, stdout and stderr."""
    with Process(*arguments) as process:
        return process.end(text)


class Terminal:
    """One process of the command on a terminal of 80 columns."""

    def __init__(self, *arguments: str, rows: int = 24, **variables: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_A_TERMINAL, *LOCKS, *arguments],
            env={**environment(), **variables},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def until(self, text: str, *, times: int = 1) -> str:
        """Read until the terminal has shown `text` so often; return all that it has shown."""
        deadline = time.monotonic() + PATIENCE
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), self.shown
        return self.shown

    def end(self) -> tuple[int, str]:
        """Wait for the end; return status and all that the terminal has shown."""
        while self._read():
            pass
        return self._process.wait(PATIENCE), self.shown

    def _read(self) -> bool:
        readable, _, _ = select.select([self._ours], [], [], PATIENCE)
        assert readable, self.shown
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return False
        self.shown += data.decode()
        return bool(data)
