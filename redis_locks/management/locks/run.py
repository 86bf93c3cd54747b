"""`manage.py locks run`: flock(1) for many machines."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.locks.hold import Hold
from redis_locks.management.locks.child import Child, Signals
from redis_locks.management.locks.console import LOST, UNREACHABLE, Console
from redis_locks.management.locks.run_hold import add_job_arguments, begin, beginning_of
from redis_locks.management.locks.verb import Verb, seconds
from redis_locks.run_once import Attempt
from redis_locks.values.text import printable

_FENCING_TOKEN = "REDIS_LOCKS_FENCING_TOKEN"  # noqa: S105 - the name of a variable
_ATTEMPT, _MAX_ATTEMPTS = "REDIS_LOCKS_ATTEMPT", "REDIS_LOCKS_MAX_ATTEMPTS"

# What a shell says of a command that is not there, or may not be run.
_MISSING, _NOT_EXECUTABLE = 127, 126


class Run(Verb):
    """A command that runs while we hold a lock."""

    name = "run"
    asks_first = False
    help = "Run a command while holding a lock, for cron."
    examples = ("run nightly-report --wait 0 -- python report.py",)
    details = (
        "Signals are passed on. The exit status is the command's, or 128 + the number of a signal "
        "that ended it. It is 75 if somebody else holds the lock or an operator cancelled the "
        "wait. A command that loses its lock is ended, and the exit status is 79, however it ends. "
        "If `run` is killed by SIGKILL, the command gets SIGTERM on Linux, and goes on elsewhere. "
        f"{_FENCING_TOKEN} has the fencing token, so that a resource can refuse late writes. With "
        "--once the command is a job. An exit status of 0 makes it done. Any other is a failed "
        "attempt, which the next caller repeats. The exit status is 0 if the job is done already, "
        f"and 70 if no attempt is left. It is 69 if Redis did not confirm the outcome. {_ATTEMPT} "
        f"has the number of the attempt, from 1 on, and {_MAX_ATTEMPTS} the most there may be. A "
        "job stays done for a day, so put the day into the name of a daily job. For example: locks "
        "run report-$(date +%F) --once --wait 3600 -- ./report.sh (in a crontab, % is written \\%)"
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
            help="how long the lock outlives `run` if that is killed; "
            "default: REDIS_LOCKS['LEASE']",
        )
        parser.add_argument(
            "--skip", action="store_true", help="exit with 0 if somebody else holds the lock"
        )
        add_job_arguments(parser)
        parser.add_argument(
            "--grace",
            type=seconds,
            default=10.0,
            metavar="SECONDS",
            help="time between SIGTERM and SIGKILL for a command that lost its lock; default: "
            "%(default)g",
        )
        parser.add_argument(
            "command", nargs="+", metavar="COMMAND", help="the command and its arguments"
        )

    def run(self, console: Console, **options: Any) -> None:
        """Hold the lock while the command runs, then exit as it did."""
        beginning, signals = beginning_of(options), Signals()
        with signals.caught():
            hold = begin(console, beginning, signals, using=options["using"], skip=options["skip"])
            if hold is None:
                return
            code = supervise(console, hold, signals, options["command"], options["grace"])
        sys.exit(code)


def supervise(
    console: Console, hold: Hold, signals: Signals, command: list[str], grace: float
) -> int:
    """Run the command and end the hold last; return the exit status."""
    try:
        code = _run(console, hold, signals, command, grace)
    except BaseException:
        with suppress(LockError):
            hold.release()
        raise
    try:
        _end(hold, code)
    except LockLost as error:
        console.note(printable(str(error)))
        return LOST  # the command may well think that all is well
    except LockBackendError as error:
        console.note(printable(str(error)))
        if isinstance(hold, Attempt):
            # It may be done again, so it is not for us to say that it is done.
            return code or UNREACHABLE
    return code


def _end(hold: Hold, code: int) -> None:
    if not isinstance(hold, Attempt):
        hold.release()
    elif code == 0:
        hold.done()
    else:
        hold.fail(f"exit status {code}")


def _environment(hold: Hold) -> dict[str, str]:
    variables = {_FENCING_TOKEN: str(hold.fencing_token)}
    if isinstance(hold, Attempt):
        variables |= {_ATTEMPT: str(hold.number), _MAX_ATTEMPTS: str(hold.max_attempts)}
    return variables


def _run(console: Console, hold: Hold, signals: Signals, command: list[str], grace: float) -> int:
    shown = printable(command[0])
    try:
        child = Child(command, _environment(hold))
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
