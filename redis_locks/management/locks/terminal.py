"""A terminal as one screen: frames go out, keys come in, and its user gets it back as it was."""

from __future__ import annotations

import codecs
import os
import re
import select
import shutil
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from redis_locks.management.locks.console import Console

# A screen of its own, without cursor and line wrapping, which leaves the user's as it was.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
# Overwriting, and then clearing what is left over, does not flicker.
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

_USUAL: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTSTP: signal.SIG_DFL,
}
"""The signals that the screen hears, and what each does elsewhere."""

_ESCAPE = "\x1b"
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")
_SPLIT = 0.05
"""Seconds in which the rest of a key's bytes follows its first one; a terminal sends them at once.
"""

_NAMES = {
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~"), "end"),
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    **dict.fromkeys("\r\n", "enter"),
    **dict.fromkeys("\x7f\b", "backspace"),
    _ESCAPE: "escape",
}


class FullScreen:
    """The terminal while `shown` lasts. Main thread only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Without a keyboard there is still something to see.
        self._keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._keys: deque[str] = deque()
        self._asked: list[int] = []
        self._before: list[Any] | None = None

    @property
    def size(self) -> os.terminal_size:
        """Its columns and lines at this moment."""
        return shutil.get_terminal_size()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Take the terminal, and give it back whatever ends the block; Ctrl-Z does both.

        A signal does its work in the next `key`, and not before: a frame may be half written, or
        the terminal half given back.
        """
        previous = {number: signal.signal(number, self._note) for number in _USUAL}
        try:
            self._enter()
            yield
        finally:
            self._leave()
            for number, before in previous.items():
                signal.signal(number, before)

    def _note(self, number: int, _frame: object) -> None:
        self._asked.append(number)

    def draw(self, lines: Sequence[str]) -> None:
        """Show a frame."""
        # No newline after the last line: it would scroll a full screen.
        text = (_END_OF_LINE + "\n").join(lines)
        self._console.draw(_HOME + text + _END_OF_LINE + _BELOW)

    def key(self, seconds: float) -> str | None:
        """Return the next key: a character, or a name as "up".

        None if none is pressed in so many seconds.

        Raises:
            EOFError: The terminal is gone.
            KeyboardInterrupt: The user pressed Ctrl-C.
            SystemExit: A signal asked the process to end.
        """
        self._obey()
        if not self._keys:
            self._read(seconds)
        return self._keys.popleft() if self._keys else None

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Give the terminal and its signals back for the length of the block."""
        self._leave()
        self._keys.clear()
        taken = {number: signal.signal(number, usual) for number, usual in _USUAL.items()}
        try:
            yield
        finally:
            for number, handler in taken.items():
                signal.signal(number, handler)
            self._enter()

    def _read(self, seconds: float) -> None:
        """Read the keys that come in so many seconds."""
        watched = [] if self._keyboard is None else [self._keyboard]
        if not select.select(watched, [], [], seconds)[0]:
            return
        text = self._typed()
        while _UNFINISHED.search(text) and select.select(watched, [], [], _SPLIT)[0]:
            text += self._typed()
        for typed in _KEY.findall(text):
            key = _NAMES.get(typed, typed)
            # Other keys that send several bytes mean nothing here.
            if key != typed or len(typed) == 1:
                self._keys.append(key)

    def _typed(self) -> str:
        try:
            typed = os.read(self._keyboard or 0, 1024)
        except OSError as error:
            raise EOFError from error
        if not typed:
            raise EOFError
        return self._decoder.decode(typed)

    def _enter(self) -> None:
        if self._keyboard is not None:
            self._before = termios.tcgetattr(self._keyboard)
            tty.setcbreak(self._keyboard)
        self._console.draw(_ENTER)

    def _leave(self) -> None:
        # A terminal that is gone takes nothing back.
        with suppress(OSError):
            self._console.draw(_LEAVE)
        if self._keyboard is not None and self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._before)

    def _obey(self) -> None:
        while self._asked:
            number = self._asked.pop(0)
            if number == signal.SIGTSTP:
                with self.given_back():
                    os.kill(os.getpid(), signal.SIGTSTP)
                    # Here it goes on, some time later.
            elif number == signal.SIGINT:
                raise KeyboardInterrupt
            else:
                raise SystemExit(128 + number)
