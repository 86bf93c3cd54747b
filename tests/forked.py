"""Processes that begin as if started by a shell, but with Python and the imports there already.

Each is forked from the process of `tests.forking`. It leads a session of its own, and has the
environment and the streams that it is given. Has what tests use of `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import termios
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import DupFd
from typing import Any, Final

from tests.forking import processes

PATIENCE: Final = 30.0


class Forked:
    """One such process.

    Args:
        main: What it does; a function of a module. `sys.argv` is what the function finds there.
        argv: These arguments.
        env: All of its environment.
        streams: The files that it reads from and writes to, which stay open here.
        on_terminal: Whether they are a terminal, to become that of its session.
    """

    def __init__(
        self,
        main: Callable[[], None],
        argv: list[str],
        env: dict[str, str],
        streams: tuple[int, int, int],
        *,
        on_terminal: bool = False,
    ) -> None:
        self._process = processes.Process(
            target=_begin, args=(main, argv, env, _Streams(streams), on_terminal), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its status, negative for a signal that ended it; None while it runs."""
        return self._process.exitcode

    def wait(self) -> int:
        """Wait for the end and return the status; whatever takes too long is killed."""
        self._process.join(PATIENCE)
        status = self.poll()
        if status is None:
            self._process.kill()
            raise subprocess.TimeoutExpired(str(self.pid), PATIENCE)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended this moment
                os.kill(self.pid, number)


class _Streams:
    """Open files on their way to the process."""

    def __init__(self, streams: tuple[int, int, int]) -> None:
        self._streams = streams

    def __getstate__(self) -> list[Any]:
        return [DupFd(each) for each in self._streams]

    def __setstate__(self, sent: list[Any]) -> None:
        self._streams = tuple(each.detach() for each in sent)  # type: ignore[assignment]

    def take(self) -> None:
        """Make them this process's standard streams."""
        for number, fd in enumerate(self._streams):
            os.dup2(fd, number)
            os.close(fd)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = self._writer(1, lines=os.isatty(1))
        sys.stderr = self._writer(2, lines=True, errors="backslashreplace")

    @staticmethod
    def _writer(number: int, *, lines: bool, errors: str = "strict") -> io.TextIOWrapper:
        raw = os.fdopen(number, "wb", closefd=False)
        return io.TextIOWrapper(raw, errors=errors, line_buffering=lines)


def _begin(
    main: Callable[[], None],
    argv: list[str],
    env: dict[str, str],
    streams: _Streams,
    on_terminal: bool,
) -> None:
    os.setsid()
    multiprocessing.current_process().daemon = False  # it may have such processes of its own
    streams.take()
    if on_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # of the processes, as ever; ours are errors
    sys.argv = argv
    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which a process of multiprocessing leaves out
