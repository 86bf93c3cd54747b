"""Lines in the log that no client can forge: what a line quotes has its control characters escaped.

Paths, names and errors may have come from a client. A newline among them would begin a line of its
own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from redis_locks.values.text import printable

LOGGERS: Final = ("redis_locks", "redis_locks.alerts", "redis_locks.audit")
"""The names of all loggers of the package."""


class Escaped(str):
    """Text in which newlines are meant: each of its parts is escaped already."""

    __slots__ = ()


class _Shown:
    """A thing that a line quotes, escaped as text and as its `repr`."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __str__(self) -> str:
        return printable(str(self._thing))

    def __repr__(self) -> str:
        return printable(repr(self._thing))


def _shown(thing: Any) -> Any:
    if isinstance(thing, str):
        return thing if thing.isprintable() or isinstance(thing, Escaped) else _Shown(thing)
    return thing if thing is None or isinstance(thing, int | float) else _Shown(thing)


class _Escaping(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Escape what the line quotes, and let it through."""
        arguments = record.args
        if isinstance(arguments, Mapping):
            record.args = {key: _shown(value) for key, value in arguments.items()}
        elif arguments:
            record.args = tuple(map(_shown, arguments))
        return True


_escaping: Final = _Escaping()


def start() -> None:
    """Escape what the lines of all loggers of the package quote, from the first call on."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_escaping)  # once, however often
