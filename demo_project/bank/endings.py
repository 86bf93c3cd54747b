"""However a command of the bank ends, it says so in one line."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import redis
from django.core.management.base import CommandError
from django.db import DatabaseError

from redis_locks import LockError

_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
_CLOSED = 128 + signal.SIGPIPE


class Terminated(BaseException):
    """SIGTERM has come."""


@contextmanager
def one_line_endings() -> Iterator[None]:
    """Turn signals and failures of the block into one line for standard error, after cleaning up.

    Raises:
        CommandError: The block was stopped by Ctrl-C, SIGTERM or a closed pipe, or a server did not
            answer.
    """
    # What the library warns of on the way is in that line, too.
    logging.getLogger("redis_locks").addHandler(logging.NullHandler())
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise CommandError("Stopped by Ctrl-C.", returncode=_INTERRUPTED) from None
    except Terminated:
        raise CommandError("Stopped by SIGTERM.", returncode=_TERMINATED) from None
    except BrokenPipeError:
        _forget_output()
        message = "Stopped, because nobody reads the output any more."
        raise CommandError(message, returncode=_CLOSED) from None
    # Errors of locks are database errors, too, but they are about Redis.
    except (LockError, redis.RedisError) as error:
        raise CommandError(f"The Redis server does not answer: {_first_line(error)}") from error
    except DatabaseError as error:
        raise CommandError(f"The database does not answer: {_first_line(error)}") from error
    finally:
        with suppress(ValueError):  # it was set outside Python
            signal.signal(signal.SIGTERM, previous)


def check_reader() -> None:
    """Notice now, and not with the next line, that nobody reads the output any more.

    Raises:
        BrokenPipeError: Nobody does.
    """
    try:
        output = sys.stdout.fileno()
    except OSError:  # it goes to no file
        return
    poll = select.poll()
    # That the other end is closed is told without being asked for.
    poll.register(output, 0)
    if poll.poll(0):
        raise BrokenPipeError("Nobody reads the output any more.")


def _terminate(_number: int, _frame: Any) -> NoReturn:
    raise Terminated


def _forget_output() -> None:
    """Send the rest of the output nowhere, so that Python does not fail at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
