"""The processes that tests start.

Most are forked from one that has imported everything. Others are a Python from its beginning.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import termios
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 30.0

# Forks one process that has imported everything but holds no connection and no thread. A test
# process has one such parent, whichever test starts it.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "redis_locks",
        "django.db.backends.sqlite3.base",
        "django_redis.cache",
        "demo_project.bank.strategies",
        "tests.faults.bank_worker",
        "tests.demo.money_worker",
    ]
)


class Forked:
    """A process that begins as if started by a shell, but with the imports there already.

    It leads a session of its own. Has what tests use of `subprocess.Popen`.

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

    def wait(self, within: float = PATIENCE) -> int:
        """Wait for the end and return the status; whatever takes too long is killed."""
        self._process.join(within)
        status = self.poll()
        if status is None:
            self._process.kill()
            raise subprocess.TimeoutExpired(str(self.pid), within)
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


class Child:
    """A process that hears lines and prints lines; the end of the block kills it.

    Args:
        start: Starts it, with these two files as its stdin and stdout.
    """

    def __init__(self, start: Callable[[int, int], Forked | subprocess.Popen[bytes]]) -> None:
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        self._process = start(stdin, stdout)
        os.close(stdin)
        os.close(stdout)
        # Without a buffer, in which `select` would miss a line.
        self._stdin, self._stdout = os.fdopen(ours, "wb", 0), os.fdopen(theirs, "rb", 0)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def say(self, text: str) -> None:
        self._stdin.write(text.encode())

    def line(self, within: float = PATIENCE) -> str:
        """The next line that it prints; empty if it has ended."""
        readable, _, _ = select.select([self._stdout], [], [], within)
        assert readable, "the process printed nothing in time"
        return self._stdout.readline().decode().rstrip("\n")

    def send(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """As `kill -9` does; returns once the process is gone."""
        self.send(signal.SIGKILL)
        self._process.wait()

    def wait(self, within: float = PATIENCE) -> int:
        """Tell it that there is no more to hear, and return its status once it has ended."""
        self._stdin.close()
        return self._process.wait(within)

    def close(self) -> None:
        self.kill()
        self._stdin.close()
        self._stdout.close()


def interpreter(
    *arguments: str, cwd: Path = ROOT, **options: Any
) -> Callable[[int, int], subprocess.Popen[bytes]]:
    """What starts a Python from its beginning, for a `Child`; options are those of `Popen`."""
    return lambda stdin, stdout: subprocess.Popen(
        [sys.executable, *arguments], stdin=stdin, stdout=stdout, cwd=cwd, **options
    )


def run_python(
    *arguments: str,
    within: float = 50,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a Python from its beginning to its end."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=within,
        cwd=cwd,
        env=env,
        check=check,
    )


def run_script(
    code: str, *arguments: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, by a Python with these options and the tests' settings."""
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "DJANGO_SETTINGS_MODULE": "tests.settings"}
    return run_python(*options, "-c", code, *arguments, env=env)


def in_a_child(work: Callable[[], object]) -> str:
    """Fork, do `work` in the child, and return its result as text, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 - said by name
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
