"""The identity of a process: what its tokens start with, and details of it that people read."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import os
import secrets
import socket
import string
import sys
from functools import lru_cache
from pathlib import PurePath
from types import FrameType
from typing import Final

from redis_locks.values.claims import Claim, Who, write_who
from redis_locks.values.text import encodable

LISTENER = 11
"""Letters and digits that name a connection: 65 random bits."""

_ALPHABET = string.ascii_letters + string.digits


def random_text(length: int) -> str:
    """Return random letters and digits, almost 6 bits each: hexadecimal ones would be longer.

    They are in keys, values and messages of every lock, and in commands that people type.
    """
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


class _Process:
    """What changes with a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        """As `os.getpid`, without a system call."""
        self.prefix = random_text(16)
        self.counter = itertools.count(1)
        """What its tokens end with."""


process = _Process()
"""This one. To be read as `identity.process`: after a fork it is another."""


def _after_fork() -> None:
    global process  # noqa: PLW0603 - a child must not repeat its parent's tokens
    process = _Process()


os.register_at_fork(after_in_child=_after_fork)


def process_name() -> str:
    """Return what the tokens of this process start with."""
    return process.prefix


def process_of(token: str) -> str:
    """Return the name of the process that a token belongs to."""
    return token[: len(process.prefix)]


def new_operation() -> str:
    """Return text that no other call in any process gets.

    It has 95 random bits of this process, and a counter.
    """
    return f"{process.prefix}.{next(process.counter)}"


_NOBODY: Final = "closedLock"
"""In the place of a process's name in the tokens of locks that stay closed: no process has them."""

COOLDOWN: Final = "cooldown of "
"""What the label of a hold begins with that only keeps a name closed, for a while."""


def cooldown_of(label: str | None) -> str:
    """Return the label of what keeps a name closed after a holder that ran this."""
    return f"{COOLDOWN}{label or _command()}"


def closing_token(token: str) -> str:
    """Return the token that keeps a lock closed after the hold of `token`.

    It is the same whenever it is asked for.
    """
    return token_without_process(_NOBODY, token)


def token_without_process(nobody: str, text: str) -> str:
    """Return a token that follows from a text, with a word in the place of a process's name."""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{nobody.ljust(len(process.prefix), '0')}{digest}.1"


def who_is(unit: str, label: str | None) -> Who:
    """Return who a thread or task of this process is, for people.

    Host, pid, `unit`, and what it runs.
    """
    return Who(socket.gethostname(), process.pid, unit, label or _command())


@lru_cache(maxsize=1024)
def written(pid: int, unit: str, label: str | None, channel: str | None) -> str:
    """Return text as `whoami` does.

    `channel`, at its end, is for scripts: its process listens to it all its life.
    """
    who = (socket.gethostname(), pid, unit, label or _command())
    return write_who(*who) + (f"\t{channel}" if channel else "")


@lru_cache(maxsize=1)
def _command() -> str:
    """Return what this process runs: `manage.py runserver`, say, but no further arguments."""
    script = PurePath(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    verb = (
        sys.argv[1]
        if script in {"manage.py", "django-admin", "celery"} and len(sys.argv) > 1
        else ""
    )
    return f"{script} {verb}".strip()


def describe_holder(claim: str) -> str | None:
    """Return the holder in a claim as one line for people, or None if there is none."""
    parsed = Claim.parse(claim)
    return str(parsed.who) if parsed and parsed.who else None


def is_cooldown(claim: str) -> bool:
    """Whether a claim is of what only keeps a name closed, for a while."""
    parsed = Claim.parse(claim)
    return bool(parsed and parsed.who and parsed.who.label.startswith(COOLDOWN))


def caller() -> str:
    """Return the line of the user's code that led here."""
    frame, _ = user_frame()
    return encodable(f"{frame.f_code.co_filename}:{frame.f_lineno}")


def user_function() -> str:
    """Return the module and qualified name of the user's function that led here."""
    frame, _ = user_frame()
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"


def user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame of the user's code, and how many frames the caller is above it.

    If there is none, as in a thread of our own, it is the outermost frame.
    """
    frame, depth = inspect.currentframe(), -1
    assert frame is not None  # noqa: S101 - CPython has frames
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame, depth = frame.f_back, depth + 1
    return frame, depth


_MACHINERY = ("redis_locks", "django.dispatch", "contextlib", "asyncio", "asgiref")


@lru_cache(maxsize=4096)
def _is_machinery(module: str) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in _MACHINERY)
