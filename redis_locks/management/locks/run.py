"""`manage.py locks run`: flock(1) for many machines."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.conf import UNSET
from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotAvailable
from redis_locks.holds import Hold
from redis_locks.locks import Lock
from redis_locks.management.locks.child import Child, Signals
from redis_locks.management.locks.console import BUSY, Console, fail
from redis_locks.management.locks.verb import Verb, seconds
from redis_locks.text import printable

_FENCING_TOKEN = "REDIS_LOCKS_FENCING_TOKEN"  # noqa: S105 - the name of a variable

# What a shell says of a command that is not there, or may not be run.
_MISSING, _NOT_EXECUTABLE = 127, 126


class Run(Verb):
    """A command that runs while we hold a lock."""

    name = "run"
    help = "Run a command while holding a lock, for cron."
    details = (
        "Signals are passed on; the exit status is "
        "the command's (128 + the number of a signal that ended it), 75 if somebody else holds the "
        "lock. A command that loses its lock is ended. It finds the fencing token in "
        f"{_FENCING_TOKEN}."
    )
    answers = False

    def arguments(self, parser: CommandParser) -> None:
        """Add the lock, how to wait for it, and the command."""
        parser.usage = "%(prog)s NAME [options] -- COMMAND [ARGUMENT ...]"
        parser.add_argument("name", help="the name of the lock")
        parser.add_argument(
            "--wait",
            type=seconds,
            metavar="SECONDS",
            help="how long to wait for the lock; default: REDIS_LOCKS['WAIT'], with --skip 0",
        )
        parser.add_argument(
            "--lease",
            type=seconds,
            metavar="SECONDS",
            help="how long the lock outlives us, should we be killed; default: REDIS_LOCKS['LEASE']",
        )
        parser.add_argument(
            "--skip", action="store_true", help="exit with 0 if somebody else holds the lock"
        )
        parser.add_argument(
            "--grace",
            type=seconds,
            default=10.0,
            metavar="SECONDS",
            help="time between SIGTERM and SIGKILL for a command that lost its lock; default: %(default)g",
        )
        parser.add_argument(
            "command",
            nargs="+",
            metavar="COMMAND",
            help="the command and its arguments",
        )

    def run(self, console: Console, **options: Any) -> None:
        """Hold the lock while the command runs, then exit as it did."""
        command, wait, lease = options["command"], options["wait"], options["lease"]
        if wait is None:
            wait = 0 if options["skip"] else UNSET
        lock = Lock(
            options["name"],
            wait=wait,
            lease=UNSET if lease is None else lease,
            renew=True,
            using=options["using"],
            label=f"locks run: {PurePath(command[0]).name}",
        )
        signals = Signals()
        with signals.caught():
            hold = _acquire(lock, signals, skip=options["skip"])
            if hold is None:
                return
            code = _supervise(console, hold, signals, command, options["grace"])
        sys.exit(code)


def _acquire(lock: Lock, signals: Signals, *, skip: bool) -> Hold | None:
    """Return a hold, or None if the command is to be skipped."""
    signals.interrupt = True  # while waiting there is nobody yet to pass signals on to
    try:
        return lock.hold().__enter__()
    except LockNotAvailable as error:
        if skip:
            return None
        fail(printable(str(error)), BUSY)
    finally:
        signals.interrupt = False


def _supervise(
    console: Console, hold: Hold, signals: Signals, command: list[str], grace: float
) -> int:
    """Run the command and release the hold last; return the exit status."""
    try:
        code = _run(console, hold, signals, command, grace)
    except BaseException:
        with suppress(LockError):
            hold.release()
        raise
    try:
        hold.release()
    except LockLost as error:
        console.note(printable(str(error)))
        # The command may well think that all is well.
        return code or 1
    except LockBackendError as error:
        console.note(printable(str(error)))
    return code


def _run(console: Console, hold: Hold, signals: Signals, command: list[str], grace: float) -> int:
    shown = printable(command[0])
    try:
        child = Child(command, {_FENCING_TOKEN: str(hold.fencing_token)})
    except OSError as error:
        console.note(f"Cannot run {shown}: {error.strerror}.")
        return _MISSING if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    try:
        code = child.wait(signals, lambda: not hold.is_lost)
    except BaseException:
        child.end(grace)
        raise
    if code is None:
        console.note(f"The lock was lost; ending {shown}.")
        code = child.end(grace)
    return code
