"""`manage.py locks`: list the locks, show one with its queue, end a hold from outside."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from redis_locks import inspection
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import LockInfo
from redis_locks.management import tables

NOT_FOUND = 1
UNREACHABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""


class Command(BaseCommand):
    """Data goes to stdout, notes and questions go to stderr."""

    help = "Show the locks that are held or waited for, and release them."
    # A tool for the hour of need must not stop at an unrelated failing check.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add one sub-command per verb."""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list | show | release")
        self._add_verb(verbs, self.list, "List the locks that are held or waited for.")
        show = self._add_verb(verbs, self.show, "Show one lock, its holders and its queue.")
        release = self._add_verb(verbs, self.release, "End the hold of a lock and hand it on.")
        for verb in (show, release):
            verb.add_argument("name", help="the name of the lock")
        release.add_argument("-y", "--yes", action="store_true", help="do not ask")

    def _add_verb(self, verbs: Any, method: Callable[..., None], text: str) -> CommandParser:
        verb: CommandParser = verbs.add_parser(method.__name__, help=text, description=text)
        verb.set_defaults(method=method)
        verb.add_argument(
            "--using",
            help="the server: a CACHES alias, a URL or a dotted path; default: REDIS_LOCKS['CONNECTION']",
        )
        verb.add_argument(
            "--json", action="store_true", help="print JSON: full values, times in seconds"
        )
        return verb

    def handle(self, *_args: Any, method: Callable[..., None], **options: Any) -> None:
        """Run one verb."""
        try:
            method(**options)
        except LockBackendError as error:
            raise CommandError(str(error), returncode=UNREACHABLE) from error
        except (ImproperlyConfigured, ValueError) as error:
            raise CommandError(str(error)) from error

    def list(self, *, using: str | None, json: bool, **_: Any) -> None:
        """Print a table of all locks; tab-separated when stdout is not a terminal."""
        found = inspection.locks(using=using)
        if json:
            self._print_json([asdict(lock) for lock in found])
        elif not found:
            self._note("No lock is held or waited for.")
        elif self.stdout.isatty():
            header, *lines = tables.columns(found, self._width())
            self.stdout.write(header, self.style.MIGRATE_LABEL)
            self.stdout.write("\n".join(lines))
        else:
            self.stdout.write("\n".join(tables.tab_separated(found)))

    def show(self, *, name: str, using: str | None, json: bool, **_: Any) -> None:
        """Print everything that is known of one lock."""
        lock = self._find(name, using)
        if json:
            self._print_json(asdict(lock))
            return
        width = self._width() if self.stdout.isatty() else None
        self.stdout.write("\n".join(tables.details(lock, width)))

    def release(self, *, name: str, using: str | None, json: bool, yes: bool, **_: Any) -> None:
        """End the holds of one lock, those that were shown when asking."""
        lock = self._find(name, using)
        shown = tables.printable(name)
        if not lock.holders:
            msg = f"Nobody holds lock '{shown}'; {lock.waiting} waiting for it."
            raise CommandError(msg, returncode=NOT_FOUND)
        by = tables.printable(" and ".join(map(str, lock.holders)))
        if not yes:
            self._confirm(f"Release lock '{shown}' held by {by}? [y/N] ")
        tokens = [holder.token for holder in lock.holders]
        ended = inspection.release(name, using=using, tokens=tokens)
        if not ended:
            msg = f"Lock '{shown}' is no longer held by {by}; nothing was released."
            raise CommandError(msg, returncode=NOT_FOUND)
        if json:
            self._print_json({"name": name, "released": ended})
        else:
            self.stdout.write(f"Released lock '{shown}', which was held by {by}.")
        self._note("The holder learns of it at its next renewal; until then it goes on working.")

    def _find(self, name: str, using: str | None) -> LockInfo:
        lock = inspection.lock(name, using=using)
        if lock is None:
            msg = f"Nobody holds lock '{tables.printable(name)}' or waits for it."
            raise CommandError(msg, returncode=NOT_FOUND)
        return lock

    def _confirm(self, question: str) -> None:
        if not sys.stdin.isatty():
            msg = "Cannot ask for confirmation: stdin is not a terminal. Give --yes to release."
            raise CommandError(msg, returncode=NOT_FOUND)
        self._note(question, ending="")
        self.stderr.flush()
        try:
            answer = input()
        except (EOFError, KeyboardInterrupt):
            self._note("")
            answer = ""
        if answer.strip().lower() not in {"y", "yes"}:
            msg = "Aborted; nothing was released."
            raise CommandError(msg, returncode=NOT_FOUND)

    def _note(self, text: str, ending: str = "\n") -> None:
        # With a style of our own: by default all of stderr is red.
        self.stderr.write(text, str, ending)

    def _print_json(self, value: object) -> None:
        self.stdout.write(json.dumps(value, indent=2))

    def _width(self) -> int:
        return shutil.get_terminal_size().columns
