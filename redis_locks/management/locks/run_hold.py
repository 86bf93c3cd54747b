"""What `locks run` holds while its command runs: a lock, or with --once an attempt at a job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from django.core.management.base import CommandParser

from redis_locks.conf.settings import UNSET
from redis_locks.exceptions import (
    AlreadyDone,
    AttemptsExhausted,
    LockBackendError,
    LockError,
    LockNotAvailable,
)
from redis_locks.inspection.time_limit import silence_told
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock
from redis_locks.management.locks.child import Signals
from redis_locks.management.locks.console import BUSY, GIVEN_UP, Console, fail
from redis_locks.management.locks.verb import count, seconds
from redis_locks.run_once import run_once
from redis_locks.values.text import printable

SILENT: Final = 2.5
"""Seconds after which people are told that the server does not answer, and that the wait goes on.
"""

_OF_JOBS = ("max_attempts", "done_ttl")


def add_job_arguments(parser: CommandParser) -> None:
    """Add --once, and what goes with it."""
    parser.add_argument(
        "--once",
        action="store_true",
        help="run the command as a job: one caller does it, and others exit with 0 when it is "
        "done; if it fails or dies, the next caller tries again",
    )
    parser.add_argument(
        "--max-attempts",
        type=count,
        metavar="N",
        help="with --once: how often the job is tried in all; default: 3",
    )
    parser.add_argument(
        "--done-ttl",
        type=seconds,
        metavar="SECONDS",
        help="with --once: how long Redis remembers that the job is done, or how often it failed; "
        "default: 86400, a day",
    )


def beginning_of(options: dict[str, Any]) -> Callable[[], Hold]:
    """Return what blocks until the command may run, and gives the hold under which it does.

    Raises:
        ValueError: The options make no lock or job.
        TypeError: Likewise.
    """
    wait, lease, of_job = options["wait"], options["lease"], _job_options(options)
    if wait is None:
        wait = 0 if options["skip"] else UNSET
    label = f"locks run: {PurePath(options['command'][0]).name}"
    common: dict[str, Any] = {
        "wait": wait,
        "lease": UNSET if lease is None else lease,
        "renew": True,
        "using": options["using"],
        "label": label,
    }
    if options["once"]:
        return run_once(options["name"], **common, **of_job).__enter__
    return Lock(options["name"], **common).hold().__enter__


def _job_options(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options[name] for name in _OF_JOBS if options[name] is not None}
    if given and not options["once"]:
        msg = f"--{next(iter(given)).replace('_', '-')} is for a job: give --once as well"
        raise ValueError(msg)
    return given


def _still_trying(console: Console, silence: str) -> None:
    console.note(f"{printable(silence)}. Still trying.")


def begin(
    console: Console,
    beginning: Callable[[], Hold],
    signals: Signals,
    *,
    using: str | None,
    skip: bool,
) -> Hold | None:
    """Return the hold under which the command runs, or None if it is not to run.

    Raises:
        CommandError: Somebody else holds the lock, the wait was cancelled, or no attempt at the job
            is left.
        LockBackendError: Redis could not be asked.
    """
    signals.interrupt = True  # while waiting there is nobody yet to pass signals on to
    try:
        with silence_told(using, SILENT, partial(_still_trying, console)):
            return beginning()
    except LockNotAvailable as error:
        if not skip:
            by = f". It is held by {error.holder}" if error.holder else ""
            fail(printable(f"{error}{by}"), BUSY)
    except AlreadyDone as error:
        # Usual for all but one of those who try, so cron is not to send mail of it.
        if console.is_terminal:
            console.note(f"{printable(str(error))}.")
    except AttemptsExhausted as error:
        fail(printable(str(error)), GIVEN_UP)
    except LockBackendError:
        raise
    except LockError as error:
        # Somebody cancelled the wait, or it would never have ended.
        fail(printable(str(error)), BUSY)
    finally:
        signals.interrupt = False
    return None
