"""The errors of the package that a client is of.

redis-py's, or those of valkey-py, which is a fork of it.

A lock over a client of valkey-py raises errors that are of both, so handlers for either work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, RedisError


def errors_named(ours: type[Exception], theirs: str) -> tuple[type[Exception], ...]:
    """Return an error of redis-py, and its twin in valkey-py if somebody has imported that."""
    valkey = sys.modules.get("valkey.exceptions")
    return (ours,) if valkey is None else (ours, getattr(valkey, theirs))


def server_errors() -> tuple[type[Exception], ...]:
    """Return what a client raises if the server cannot be asked, or refuses."""
    return (*errors_named(RedisError, "ValkeyError"), OSError)


def missing_script() -> tuple[type[Exception], ...]:
    """Return what a client raises if the server does not know a script."""
    return errors_named(NoScriptError, "NoScriptError")


def is_of_valkey(client: object) -> bool:
    """Whether a client is one of valkey-py, blocking or asyncio, of a server or of a cluster."""
    return any(kind.__module__.partition(".")[0] == "valkey" for kind in type(client).__mro__)


@contextmanager
def errors_of(client: object) -> Iterator[None]:
    """Let an error of a lock be one of valkey-py as well, if the client is."""
    try:
        yield
    except LockError as error:
        if not is_of_valkey(client):
            raise
        ours = LockNotOwnedError if isinstance(error, LockNotOwnedError) else LockError
        raise _of_both(ours)(str(error), lock_name=getattr(error, "lock_name", None)) from None


@cache
def _of_both(ours: type[LockError]) -> Any:
    """Return a class of errors that are of both packages."""
    return type(ours.__name__, errors_named(ours, ours.__name__), {"__doc__": ours.__doc__})
