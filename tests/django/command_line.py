"""`manage.py locks` in processes of its own, some of them on a terminal."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import django
from django.core import management

from tests.support.children import PATIENCE, ROOT, Child, Forked
from tests.support.waiting import until
from tests.support.world import Threads

LOCKS = [sys.executable, "-m", "django", "locks"]
ARGV = [str(Path(django.__file__).with_name("__main__.py"))]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for init to notice does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def environment() -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in {"NO_COLOR", "COLUMNS", "LINES"}
    }
    # Python's development mode and coverage may be on; warnings of the tests' own are not.
    return {**kept, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(ROOT)}


def _django() -> None:
    """Do what `LOCKS` does, in a process that has been started already."""
    management.execute_from_command_line()


class Process(Child):
    """One process of the command, without a terminal, as under cron, wherever the tests run."""

    def __init__(self, *arguments: str, command: str = "locks") -> None:
        argv = [*ARGV, command, *arguments]
        err, stderr = os.pipe()
        super().__init__(
            lambda stdin, stdout: Forked(_django, argv, environment(), (stdin, stdout, stderr))
        )
        os.close(stderr)
        self._stderr = os.fdopen(err)

    def close(self) -> None:
        """Have it end as it does if it is asked to."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        self._process.wait()
        self._stderr.close()
        super().close()

    def end(self, text: str = "") -> tuple[int, str, str]:
        """Wait for the end; return status, stdout and stderr."""
        with suppress(BrokenPipeError):
            self.say(text)
        self._stdin.close()
        err = Threads().start(self._stderr.read)
        out = self._stdout.read().decode()
        return self._process.wait(), out, err.result(PATIENCE)


def locks(*arguments: str, text: str = "", command: str = "locks") -> tuple[int, str, str]:
    """Run the command to its end; return status, stdout and stderr."""
    with Process(*arguments, command=command) as process:
        return process.end(text)


_PAINT = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """One process of the command on a terminal of 80 columns."""

    def __init__(
        self,
        *arguments: str,
        rows: int = 24,
        main: Callable[[], None] = _django,
        command: str = "locks",
        **variables: str,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(rows, 80)
        self.modes_before = self.modes
        streams = (theirs, theirs, theirs)
        env = {**environment(), **variables}
        self._process = Forked(main, [*ARGV, command, *arguments], env, streams, on_terminal=True)
        os.close(theirs)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def modes(self) -> list[Any]:
        """How the terminal treats keys and lines."""
        return termios.tcgetattr(self._ours)

    @property
    def frame(self) -> list[str]:
        """The lines of the last whole screen that was drawn, without colours."""
        whole = self.shown.rpartition("\x1b[J")[0].rpartition("\x1b[H")[2]
        return [line.removesuffix("\x1b[K") for line in _PAINT.sub("", whole).split("\r\n")]

    @property
    def marked(self) -> str:
        """What of the last whole screen stands out."""
        whole = self.shown.rpartition("\x1b[J")[0].rpartition("\x1b[H")[2]
        return whole.partition("\x1b[7m")[2].partition("\x1b[0m")[0]

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Press Ctrl-C at a question.

        Python's `input` misses a signal that comes when it is about to wait, so wait first.
        """
        until(self.is_idle)
        self.send(signal.SIGINT)

    def until(self, text: str, *, times: int = 1) -> str:
        """Read until the terminal has shown `text` so often; return all that it has shown."""
        deadline = time.monotonic() + PATIENCE
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), self.shown
        return self.shown

    def reply(self, text: str, keys: str, *, times: int = 1) -> str:
        """Type `keys` once the terminal has shown `text` so often; return all shown by then."""
        shown = self.until(text, times=times)
        self.type(keys)
        return shown

    def until_frame(self, fits: Callable[[list[str]], bool]) -> list[str]:
        """Read until a screen fits, and return it."""
        deadline = time.monotonic() + PATIENCE
        while not fits(self.frame):
            assert time.monotonic() < deadline, self.frame
            assert self._read(), self.shown
        return self.frame

    def until_line(self, text: str) -> list[str]:
        """Read until a line of the screen contains `text`, and return the screen."""
        return self.until_frame(lambda frame: any(text in line for line in frame))

    def until_marked(self, text: str) -> None:
        """Read until what stands out of the screen contains `text`."""
        self.until_frame(lambda _: text in self.marked)

    def is_idle(self) -> bool:
        """Whether the process waits, and has computed nothing for a while, or has ended."""

        def used() -> list[str]:
            try:
                stat = Path(f"/proc/{self._process.pid}/stat").read_text()
            except OSError:  # it has ended
                return ["ended"]
            state, *figures = stat.rpartition(")")[2].split()
            return [state, *figures[10:12]]

        before = used()
        time.sleep(0.2)
        # On a busy machine, one that could run computes nothing either.
        return before == used() and before[0] != "R"

    def end(self) -> tuple[int, str]:
        """Wait for the end; return status and all that the terminal has shown."""
        while self._read():
            pass
        return self._process.wait(), self.shown

    def quit(self) -> str:
        """Press q; return what was shown until the process ended and gave the terminal back."""
        self.type("q")
        status, shown = self.end()
        assert (0, self.modes_before) == (status, self.modes)
        return shown

    def _read(self) -> bool:
        readable, _, _ = select.select([self._ours], [], [], PATIENCE)
        assert readable, self.shown
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return False
        self.shown += self._decoder.decode(data)  # a character may come in two pieces
        return bool(data)
