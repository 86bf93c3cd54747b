"""A command run as a child process, which gets the signals that we get."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)

_CHECK = 0.25
"""Seconds between two looks at whether the child may go on."""

_POLL = 0.02

_PR_SET_PDEATHSIG = 1
"""See prctl(2)."""


class Signals:
    """The signals that reach this process, as a pipe of their numbers; main thread only.

    While `interrupt` is true, a signal ends what is under way with SystemExit(128 + number).
    """

    def __init__(self) -> None:
        self.interrupt = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch them for the length of the block; those that are ignored stay so."""
        numbers = [n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]
        previous = {n: signal.signal(n, self._arrived) for n in (*numbers, signal.SIGCHLD)}
        wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(self._read)
            os.close(self._write)

    def _arrived(self, number: int, _frame: object) -> None:
        # Otherwise the number is in the pipe, and nothing else is to be done.
        if self.interrupt and number != signal.SIGCHLD:
            self.interrupt = False
            raise SystemExit(128 + number)

    def wait(self, seconds: float) -> list[int]:
        """Return the signals that arrived, after at most so many seconds."""
        select.select([self._read], [], [], seconds)
        with suppress(BlockingIOError):
            return [n for n in os.read(self._read, 512) if n in FORWARDED]
        return []


class Child:
    """A running command. It inherits our standard streams.

    On Linux it gets SIGTERM should we be killed, as it has no lock then; elsewhere it goes on.

    On a terminal it stays in our process group, because only that may read what is typed;
    the terminal then gives Ctrl-C to both of us. Otherwise it leads a group of its own, so
    that signals reach what it starts as well.

    Raises:
        OSError: It could not be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._shares_group = _in_foreground()
        with _signals_held_back() as before:
            self._process = subprocess.Popen(  # noqa: S603 - running it is our job
                command,
                env={**os.environ, **environment},
                process_group=None if self._shares_group else 0,
                preexec_fn=_dies_with_us(before),  # noqa: PLW1509 - system calls, looked up before
            )

    def wait(self, signals: Signals, may_go_on: Callable[[], bool]) -> int | None:
        """Return how it ended, or None once it may no longer go on; passes signals on meanwhile.

        A signal that ended it gives 128 + its number, as in a shell.
        """
        while (code := self._process.poll()) is None:
            if not may_go_on():
                return None
            for number in signals.wait(_CHECK):
                if not (self._shares_group and number in _OF_THE_TERMINAL):
                    self._send(number)
        return code if code >= 0 else 128 - code

    def end(self, grace: float) -> int:
        """End it with SIGTERM, and what is left of it with SIGKILL after `grace` seconds.

        Returns how it ended, as `wait` does.
        """
        self._send(signal.SIGTERM)
        # Stopped processes would not hear it.
        self._send(signal.SIGCONT)
        until = time.monotonic() + grace
        while self._is_alive() and time.monotonic() < until:
            # Not by SIGCHLD: what it started is not our child.
            time.sleep(_POLL)
        if self._is_alive():
            self._send(signal.SIGKILL)
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def _is_alive(self) -> bool:
        """Return whether it, or anything in the group that it leads, is there; reaps it."""
        return self._process.poll() is None or (not self._shares_group and self._send(0))

    def _send(self, number: int) -> bool:
        """Send a signal; return whether anybody was there to get it."""
        if self._shares_group:
            self._process.send_signal(number)
            return self._process.poll() is None
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            # macOS refuses signals to a group of which only zombies are left.
            return False
        return True


@contextmanager
def _signals_held_back() -> Iterator[set[signal.Signals]]:
    """Hold signals back inside the block, here and in a child made there.

    Give the mask from before.

    Our handlers would swallow what reaches the child, such as Ctrl-C, until the command begins.
    """
    held_back = FORWARDED if sys.platform == "linux" else ()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held_back)
    try:
        yield before  # type: ignore[misc]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dies_with_us(before: set[signal.Signals]) -> Callable[[], None] | None:
    """Return what the child calls before it becomes the command, None where nothing can be done."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()
    # What is ignored stays so, in the command as well.
    caught = [n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]

    def call() -> None:
        # In a copy of a process with threads: as little as possible, and no imports.
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM.value)
        if os.getppid() != parent:  # killed before that
            os._exit(128 + signal.SIGTERM)

    return call


def _in_foreground() -> bool:
    """Return whether what is typed on our terminal, if we have one, is for us."""
    try:
        # Not stdin, which may be a pipe while the command asks the terminal for a password.
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
