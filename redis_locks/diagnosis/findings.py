"""What a check finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """Locks work; under the circumstances that the message names they may not."""
    ERROR = "error"
    """Locks do not work, or do not exclude."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: Its name.
        level: "ok", "warning" or "error".
        message: What the check found, as a sentence.
        fix: What to do; empty if all is well.
    """

    check: str
    level: Level
    message: str
    fix: str = ""


class Outcome(NamedTuple):
    """The outcome of a check that does not know its name."""

    level: Level
    message: str
    fix: str = ""


def ok(message: str) -> Outcome:
    """Return that all is well."""
    return Outcome(Level.OK, message)


def warning(message: str, fix: str) -> Outcome:
    """Return that locks work, but may not always."""
    return Outcome(Level.WARNING, message, fix)


def error(message: str, fix: str) -> Outcome:
    """Return that locks do not work or do not exclude."""
    return Outcome(Level.ERROR, message, fix)


def reason(failure: Exception) -> str:
    """Return what an error says, to end a sentence with."""
    return str(failure).rstrip(".")
