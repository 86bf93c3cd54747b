"""The names of locks on the server.

As they are given, or as REDIS_LOCKS["NAME_FUNCTION"] makes them.
"""

from __future__ import annotations

from typing import Literal

from django.core.exceptions import ImproperlyConfigured

from redis_locks.conf.settings import get_settings
from redis_locks.values.keys import MAX_NAME_BYTES, QUEUED, ServerName, UnusableName, validate_name

NameKind = Literal["lock", "semaphore", "row", "job", "task", "operation"]
"""What the name is of, as the function is told."""


def server_name(name: str, kind: NameKind = "lock") -> str:
    """Return what a lock, a job or an operation is called on the server.

    A name that is of the server already stays as it is, so the function is applied once.

    Raises:
        ImproperlyConfigured: The function returned what cannot be a name.
        UnusableName: The function returned a name that is too long.
    """
    function = get_settings().name_function
    if function is None or isinstance(name, ServerName):
        return name
    if name.startswith(QUEUED):
        # What shows locks tells messages apart by it.
        return ServerName(
            QUEUED + _checked(function(name[len(QUEUED) :], "task"), name, len(QUEUED))
        )
    made = _checked(function(name, kind), name)
    if kind == "row" and not made.endswith(name):
        raise ImproperlyConfigured(
            f"REDIS_LOCKS['NAME_FUNCTION'] returned {made!r} for the rows of {name!r}: put "
            "something before that name, and keep it at the end"
        )
    return ServerName(made)


def server_names(names: tuple[str, ...], kind: NameKind = "lock") -> tuple[str, ...]:
    """Return what locks are called on the server, each once; see `server_name`."""
    return tuple(dict.fromkeys(server_name(name, kind) for name in names))


def listed(name: str) -> str:
    """Return a name that the server gave: whoever asks for it again means that very name."""
    return name if get_settings().name_function is None else ServerName(name)


def both_forms(name: str) -> tuple[str, ...]:
    """Return what people may mean by a name.

    First comes the name on the server, then the one that code gives.
    """
    if get_settings().name_function is None:
        return (name,)
    return tuple(dict.fromkeys((ServerName(name), server_name(name))))


def _checked(made: object, name: str, before: int = 0) -> str:
    if isinstance(made, str) and len(made.encode(errors="replace")) + before > MAX_NAME_BYTES:
        raise UnusableName(
            f"REDIS_LOCKS['NAME_FUNCTION'] made a name of more than {MAX_NAME_BYTES} bytes of "
            f"{name[:40]!r}: give it a shorter one, or let the function hash the long part"
        )
    try:
        return validate_name(made)
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(
            f"REDIS_LOCKS['NAME_FUNCTION'] must return a name for {name!r}, as text without NUL "
            f"that is not empty; it returned {made!r}"
        ) from error
