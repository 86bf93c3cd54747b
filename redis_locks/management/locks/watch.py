"""`manage.py locks watch`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from redis_locks import diagnosis
from redis_locks.diagnosis import AlertEvent
from redis_locks.exceptions import LockBackendError
from redis_locks.management.locks.console import USAGE, Console, fail
from redis_locks.management.locks.list import SELECTION, List, Selection
from redis_locks.management.locks.live_screen import Feed, LiveScreen
from redis_locks.management.locks.operators import Release
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.terminal import FullScreen
from redis_locks.management.locks.verb import Argument, Verb, number
from redis_locks.values.text import printable

_BEAT = 0.25
"""Seconds between two frames while no key is pressed."""

_interval = number(0.1, 3600, float, "a number of seconds from 0.1 to 3600")


class Watch(Verb):
    """The list and the locks on a screen of their own, always up to date."""

    name = "watch"
    asks_first = False
    help = "Watch the locks live, trouble first, until q."
    details = (
        "Keys: j, k and the arrows choose a lock, Enter opens it, Esc goes back, f force-releases "
        "after asking for a reason, / filters, q quits. With --format, or if stdout is no "
        "terminal, print the locks once, as `list` does. With --alerts, print a line when a rule "
        "of REDIS_LOCKS['ALERTS'] begins to fire and when that is over; the log and the signal "
        "lock_alert tell of it, too. With --once, exit with 1 if one fires."
    )
    examples = (
        "watch",
        "watch 'account:*' --interval 1",
        "watch --alerts --interval 15",
        "watch --alerts --once",
    )
    arguments = (
        *SELECTION,
        Argument(
            "--interval",
            type=_interval,
            default=2.0,
            metavar="SECONDS",
            help="pause between two looks; default: %(default)g",
        ),
        Argument("--alerts", action="store_true", help="look for alerts, list no locks"),
        Argument("--once", action="store_true", help="with --alerts: look once"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Draw the list until interrupted.

        If stdout is no terminal, print it once, as `list` does.
        """
        if options["once"] and not options["alerts"]:
            fail("--once goes with --alerts; `locks list` lists the locks once.", USAGE)
        if options["alerts"]:
            with suppress(KeyboardInterrupt):
                _watch_alerts(console, options)
            return
        if options["format"] or not console.is_terminal:
            List().begin(console, **options)
            return
        chosen = Selection.of(options)
        with suppress(KeyboardInterrupt, EOFError):
            _watch(console, options["using"], chosen, options["interval"])


def _watch_alerts(console: Console, options: Mapping[str, Any]) -> None:
    known: dict[str, AlertEvent] = {}
    changes = _Changes(console, options["format"])
    while True:
        firing = {
            event.alert.label: event for event in diagnosis.check_alerts(using=options["using"])
        }
        for name, event in firing.items():
            if name not in known:
                changes.tell(event.alert.severity, name, event.message)
        for name in known.keys() - firing.keys():
            changes.tell("resolved", name, "It is over.")
        known = firing
        if options["once"]:
            break
        time.sleep(options["interval"])
    if known:
        fail(f"{len(known)} alerts fire." if len(known) > 1 else "1 alert fires.")


class _Changes:
    """Prints what begins to fire and what is over, as it happens."""

    def __init__(self, console: Console, wanted: str | None) -> None:
        self._console = console
        # A stream is no document: each record has its line.
        self._wanted = {None: "table", "json": "jsonl"}.get(wanted, wanted or "")
        self._headed = False

    def tell(self, state: str, name: str, message: str) -> None:
        row: Row = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "state": state,
            "alert": name,
            "message": message,
        }
        style = self._console.style
        paint = {"critical": style.ERROR, "warning": style.WARNING}.get(state, style.SUCCESS)
        text = (
            f"{time.strftime('%H:%M:%S')}  {paint(state.upper().ljust(len('critical')))}  "
            f"{printable(name)}: {message}"
        )
        lines = Report.of(row, text).lines(self._wanted, None)
        headed = self._wanted in {"csv", "plain"}
        self._console.write(lines[1:] if headed and self._headed else lines)
        self._headed = True


def _watch(console: Console, using: str | None, chosen: Selection, interval: float) -> None:
    terminal, screen = FullScreen(console), LiveScreen(console, using, chosen)
    feed, wanted = Feed(screen.read, interval), screen.wanted
    try:
        with terminal.shown():
            key: str | None = ""
            while key is None or screen.press(key):
                if key and (name := screen.to_release) is not None:
                    with suppress(KeyboardInterrupt), terminal.given_back():
                        _release(console, name, using)
                    feed.hurry()
                terminal.draw(screen.frame(feed.news, terminal.size))
                if screen.wanted != wanted:
                    wanted = screen.wanted
                    feed.hurry()
                key = terminal.key(_BEAT)
    finally:
        feed.close()


def _release(console: Console, name: str, using: str | None) -> None:
    """Have `locks release` end the holds of a lock, after asking for a reason."""
    reason = console.ask(f"Why is lock '{printable(name)}' to be released? ")
    try:
        if not reason:
            fail("A force-release needs a reason; nothing was released.")
        options = {"name": name, "using": using, "reason": reason, "yes": False, "format": None}
        Release().begin(console, **options)
    except (CommandError, LockBackendError) as error:
        console.note(printable(str(error)))
    console.ask("Press Enter to go back. ")
