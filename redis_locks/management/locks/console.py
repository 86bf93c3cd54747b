"""Where a verb's words go: data to stdout, notes and questions to stderr."""

from __future__ import annotations

import shutil
import sys
import termios
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from django.core.management.base import CommandError, OutputWrapper
from django.core.management.color import Style, no_style

from redis_locks.management.locks.report import Report

FAILED = 1
"""Not found, not confirmed, or something is wrong with the server."""

USAGE = 64
"""EX_USAGE of sysexits.h."""

UNREACHABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""

GIVEN_UP = 70
"""EX_SOFTWARE of sysexits.h: a job has failed as often as it may be tried."""

BUSY = 75
"""EX_TEMPFAIL of sysexits.h: somebody else holds the lock."""

LOST = 79
"""The command that ran lost its lock. Above all of sysexits.h, so that hardly any command has it as
its own.
"""


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with a message on stderr and an exit status.

    Raises:
        CommandError: Always.
    """
    raise CommandError(message, returncode=code)


class Console:
    """The two streams of one run of the command; colours only a terminal, unless `force_color`."""

    def __init__(
        self, stdout: OutputWrapper, stderr: OutputWrapper, style: Style, *, force_color: bool
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self.is_terminal = stdout.isatty()
        self.style = style if self.is_terminal or force_color else no_style()

    @property
    def columns(self) -> int | None:
        """The width of the terminal; None when stdout is none."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    @property
    def lines(self) -> int | None:
        """The height of the terminal; None when stdout is none."""
        return shutil.get_terminal_size().lines if self.is_terminal else None

    def report(self, report: Report, wanted: str | None, *, piped: str = "table") -> None:
        """Print an answer in the format `wanted`.

        None is a table, or `piped` if not on a terminal.
        """
        chosen = wanted or ("table" if self.is_terminal else piped)
        self.write(report.lines(chosen, self.columns))

    def headed(self, table: Sequence[str]) -> list[str]:
        """Return a table with its header painted; nothing if there is nothing below that."""
        header, *lines = table
        return [self.style.MIGRATE_LABEL(header), *lines] if lines else []

    def write(self, lines: Iterable[str]) -> None:
        """Print lines of data."""
        for line in lines:
            self._stdout.write(_encodable(line, self._stdout))
        self._stdout.flush()  # here, where a closed pipe can still be told from a fault of ours

    def draw(self, text: str) -> None:
        """Send text to the terminal as it is, at once."""
        self._stdout.write(_encodable(text, self._stdout), ending="")
        self._stdout.flush()

    def note(self, text: str, ending: str = "\n") -> None:
        """Say something that is not data."""
        # With a style of our own: by default all of stderr is red.
        self._stderr.write(_encodable(text, self._stderr), str, ending)
        self._stderr.flush()

    def confirm(self, question: str, verb: str, done: str) -> None:
        """Return if the user agrees.

        Raises:
            CommandError: The user does not, or cannot be asked.
        """
        if not sys.stdin.isatty():
            fail(f"Cannot ask for confirmation: stdin is not a terminal. Give --yes to {verb}.")
        if self.ask(f"{question} [y/N] ").lower() not in {"y", "yes"}:
            fail(f"Aborted; nothing was {done}.")

    def ask(self, question: str) -> str:
        """Return the line that the user types; empty after Ctrl-C or Ctrl-D."""
        # What was typed before the question can be read is no answer to it.
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        try:
            self.note(question, ending="")
            return input().strip()
        except (EOFError, KeyboardInterrupt):
            self.note("")
            return ""


def _encodable(text: str, stream: OutputWrapper) -> str:
    # A terminal that does not speak Unicode must not end the command with a traceback.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
