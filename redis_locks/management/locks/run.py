"""`manage.py locks run`: flock(1) for many machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Final

from redis_locks.conf.settings import UNSET
from redis_locks.exceptions import (
    AlreadyDone,
    AttemptsExhausted,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
)
from redis_locks.inspection.time_limit import silence_told
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.management.locks.child import Child, Signals
from redis_locks.management.locks.console import BUSY, GIVEN_UP, LOST, UNREACHABLE, Console, fail
from redis_locks.management.locks.verb import COUNT, NAME, SECONDS, Argument, Verb
from redis_locks.run_once import Attempt, run_once
from redis_locks.values.text import printable

_FENCING_TOKEN = "REDIS_LOCKS_FENCING_TOKEN"  # noqa: S105 - the name of a variable
_ATTEMPT, _MAX_ATTEMPTS = "REDIS_LOCKS_ATTEMPT", "REDIS_LOCKS_MAX_ATTEMPTS"

# What a shell says of a command that is not there, or may not be run.
_MISSING, _NOT_EXECUTABLE = 127, 126

_GRACE: Final = 10.0
"""Seconds between SIGTERM and SIGKILL for a command that lost its lock."""

_SILENT: Final = 2.5
"""Seconds after which people are told that the server does not answer, and that the wait goes on.
"""

_OF_JOBS = ("max_attempts", "done_ttl")


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
    usage = "%(prog)s NAME [options] -- COMMAND [ARGUMENT ...]"
    arguments = (
        NAME,
        Argument(
            "--wait",
            **SECONDS,
            default=UNSET,
            help="how long to wait for the lock; default: REDIS_LOCKS['WAIT'], with --skip 0",
        ),
        Argument(
            "--lease",
            **SECONDS,
            default=UNSET,
            help="how long the lock outlives `run` if that is killed; "
            "default: REDIS_LOCKS['LEASE']",
        ),
        Argument("--skip", action="store_true", help="exit with 0 if somebody else holds the lock"),
        Argument(
            "--once",
            action="store_true",
            help="run the command as a job: one caller does it, and others exit with 0 when it is "
            "done; if it fails or dies, the next caller tries again",
        ),
        Argument(
            "--max-attempts",
            **COUNT,
            help="with --once: how often the job is tried in all; default: 3",
        ),
        Argument(
            "--done-ttl",
            **SECONDS,
            help="with --once: how long Redis remembers that the job is done, or how often it "
            "failed; default: 86400, a day",
        ),
        Argument(
            "--grace",
            **SECONDS,
            default=_GRACE,
            help="time between SIGTERM and SIGKILL for a command that lost its lock; default: "
            "%(default)g",
        ),
        Argument("command", nargs="+", metavar="COMMAND", help="the command and its arguments"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Hold the lock while the command runs, then exit as it did."""
        hold = _hold_of(options)
        run_under(
            hold,
            options["command"],
            console,
            options["using"],
            skip=options["skip"],
            grace=options["grace"],
        )


def _hold_of(options: Mapping[str, Any]) -> Callable[[], Hold]:
    """Return what blocks until the command may run, and gives the hold under which it does.

    Raises:
        ValueError: The options make no lock or job.
        TypeError: Likewise.
    """
    of_job = {name: options[name] for name in _OF_JOBS if options[name] is not None}
    if of_job and not options["once"]:
        msg = f"--{next(iter(of_job)).replace('_', '-')} is for a job: give --once as well"
        raise ValueError(msg)
    common: dict[str, Any] = {
        "wait": 0 if options["skip"] and options["wait"] is UNSET else options["wait"],
        "lease": options["lease"],
        "renew": True,
        "using": options["using"],
        "label": f"locks run: {PurePath(options['command'][0]).name}",
    }
    if options["once"]:
        return run_once(options["name"], **common, **of_job).__enter__
    return Lock(options["name"], **common).hold().__enter__


def run_under(
    begin: Callable[[], Hold],
    command: list[str],
    console: Console,
    using: str | None,
    *,
    skip: bool = False,
    grace: float = _GRACE,
) -> None:
    """Run a command under the hold that `begin` waits for, then exit as the command did.

    Returns if the command is not to run.

    Args:
        begin: Blocks until the command may run, and gives its hold.
        command: The command and its arguments.
        console: Where it is told what goes wrong.
        using: The server of the lock.
        skip: Whether it is all right that somebody else holds the lock.
        grace: Seconds between SIGTERM and SIGKILL for a command that lost its lock.

    Raises:
        CommandError: Somebody else holds the lock, the wait was cancelled, or no attempt at the job
            is left.
        LockBackendError: Redis could not be asked.
        SystemExit: The command has ended.
    """
    signals = Signals()
    with signals.caught():
        hold = _begun(begin, console, signals, using, skip=skip)
        if hold is None:
            return
        code = _supervise(console, hold, signals, command, grace)
    sys.exit(code)


def _begun(
    begin: Callable[[], Hold], console: Console, signals: Signals, using: str | None, *, skip: bool
) -> Hold | None:
    """Return the hold under which the command runs, or None if it is not to run."""

    def still_trying(silence: str) -> None:
        console.note(f"{printable(silence)}. Still trying.")

    signals.interrupt = True  # while waiting there is nobody yet to pass signals on to
    try:
        with silence_told(using, _SILENT, still_trying):
            return begin()
    except LockNotAvailable as error:
        if not skip:
            by = f". It is held by {error.holder}" if error.holder else ""
            fail(printable(f"{error}{by}"), BUSY)
    except AlreadyDone as error:
        # Usual for all but one of those who try, so cron is not to send mail of it.
        if console.is_terminal:
            console.note(f"{printable(str(error))}.")
    except LockBackendError:
        raise
    except LockError as error:
        # No attempt is left. Or somebody cancelled the wait, or it would never have ended.
        fail(printable(str(error)), GIVEN_UP if isinstance(error, AttemptsExhausted) else BUSY)
    finally:
        signals.interrupt = False
    return None


def _supervise(
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
