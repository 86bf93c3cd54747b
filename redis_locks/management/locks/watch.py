"""`manage.py locks watch`."""

from __future__ import annotations

import shutil
import signal
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import terminal_size
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.connections.backends import backend_for
from redis_locks.exceptions import LockBackendError
from redis_locks.management.locks import selection
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.list import List
from redis_locks.management.locks.selection import Selection
from redis_locks.management.locks.table import table
from redis_locks.management.locks.unix_signals import ended_by
from redis_locks.management.locks.verb import Verb, number
from redis_locks.values.text import printable, shorten

# A screen of its own, without cursor and line wrapping, which leaves the user's as it was.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
# Overwriting, and then clearing what is left over, does not flicker.
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

_interval = number(0.1, 3600, float, "a number of seconds from 0.1 to 3600")


class Watch(Verb):
    """The list, drawn again and again."""

    name = "watch"
    help = "Watch the locks live, most waited for first, until Ctrl-C."
    answers = False

    def arguments(self, parser: CommandParser) -> None:
        """Add those of `list`, and the pause."""
        selection.add_arguments(parser, sort="queue")
        parser.add_argument(
            "--interval",
            type=_interval,
            default=2.0,
            metavar="SECONDS",
            help="pause between two looks; default: %(default)g",
        )

    def run(self, console: Console, **options: Any) -> None:
        """Draw the list until interrupted; if stdout is no terminal, print it once, as `list` does."""
        if not console.is_terminal:
            List().run(console, format=None, **options)
            return
        chosen = Selection(**{field: options[field] for field in Selection.__slots__})
        with suppress(KeyboardInterrupt), _screen(console):
            while True:
                size = shutil.get_terminal_size()
                _draw(console, _frame(options["using"], chosen, console, size))
                time.sleep(options["interval"])


def _frame(
    using: str | None, chosen: Selection, console: Console, size: terminal_size
) -> list[str]:
    clock = time.strftime("%H:%M:%S")
    server = printable(backend_for(using).description)
    try:
        found = chosen.search(using)
        # More locks than there are lines cannot be shown, so they need not be read.
        most = size.lines if chosen.limit is None else min(chosen.limit, size.lines)
        locks = found.part(0, most)
    except LockBackendError as error:
        # It may come back, and then the watcher should not have to start again.
        return [clock, "", *textwrap.wrap(printable(str(error)), size.columns)]
    waiting = "" if found.waiting is None else f", {found.waiting} waiting"
    summary = f"{clock}  {len(found)} locks{waiting}  {server}"
    header, *lines = table(locks, size.columns)
    lines = [shorten(summary, size.columns), "", console.style.MIGRATE_LABEL(header), *lines]
    if len(lines) > size.lines:
        lines[size.lines - 1 :] = [f"and more, of {len(found)} locks"]
    return lines


def _draw(console: Console, lines: Sequence[str]) -> None:
    # No newline after the last line: it would scroll a full screen.
    text = (_END_OF_LINE + "\n").join(lines)
    console.draw(_HOME + text + _END_OF_LINE + _BELOW)


@contextmanager
def _screen(console: Console) -> Iterator[None]:
    """Give the terminal back as it was, also when told to end."""
    with ended_by(signal.SIGTERM):
        console.draw(_ENTER)
        try:
            yield
        finally:
            console.draw(_LEAVE)
