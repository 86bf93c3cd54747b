"""The modes of rows, and who can be held beside whom: the table of `_modes.lua`, for Python.

The four modes are PostgreSQL's of a row, in the order of their strength. Two holders exclude
each other if their strengths, from 1 to 4, add up to more than 4.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

RowMode = Literal["key_share", "shared", "no_key", "exclusive"]
"""How a row, or all rows of a model, can be held; the weakest first."""

_STRENGTH: Final = {mode: place for place, mode in enumerate(get_args(RowMode), 1)}
_INTENT: Final = "intent:"


def row_mode(mode: object) -> RowMode:
    """Return `mode` if rows can be held in it; raises ValueError or TypeError."""
    if isinstance(mode, str) and mode in _STRENGTH:
        return mode  # type: ignore[return-value]  # mypy does not narrow by a dict
    msg = f'mode must be "exclusive", "no_key", "shared" or "key_share", not {mode!r}'
    raise ValueError(msg) if isinstance(mode, str) else TypeError(msg)


def intent(mode: str) -> str:
    """Return the mode in which a model is held while rows of it are held in `mode`."""
    return _INTENT + mode


def intents_in(requested: str) -> int:
    """Return of how many locks, the first of its set, a request wants the intent only."""
    word, count, _ = (*requested.split(":", 2), "", "")[:3]
    return int(count) if word == "intent" and count.isdecimal() else 0


def shown(requested: str) -> str:
    """Return the mode of a request as people know it."""
    if requested.startswith("upgrade:"):
        return "upgrade"
    return requested.rpartition(":")[2] if intents_in(requested) else requested


def excludes(mode: str, other: str) -> bool:
    """Return whether nobody can hold a lock in `mode` while somebody holds it in `other`."""
    if mode.startswith(_INTENT) and other.startswith(_INTENT):
        return False
    if mode.startswith("permit") and other.startswith("permit"):
        return False  # it depends on how many there are
    return _strength(mode) + _strength(other) > len(_STRENGTH)


def covers(mode: str, other: str) -> bool:
    """Return whether who holds a lock in `mode` needs no second hold to have it in `other`."""
    if mode.startswith(_INTENT) and not other.startswith(_INTENT):
        return False
    if other.startswith("permit"):
        return mode in ("exclusive", other)
    return not mode.startswith("permit") and _strength(mode) >= _strength(other)


def _strength(mode: str) -> int:
    # A permit excludes all that is none.
    return _STRENGTH.get(mode.removeprefix(_INTENT), len(_STRENGTH))


class Taken(NamedTuple):
    """Which locks a hold is of, and how it holds them; of `intents` it has the intent only.

    What is taken as a "job" stands in for no lock, nor the other way round.
    """

    backend: Any
    """The server of the locks."""
    names: frozenset[str]
    mode: str
    intents: frozenset[str] = frozenset()
    kind: Literal["lock", "job"] = "lock"

    def mode_of(self, name: str) -> str:
        """Return how one of the locks is held."""
        return intent(self.mode) if name in self.intents else self.mode

    def covers(self, other: Taken) -> bool:
        """Whether a holder of this has `other` as well."""
        return (
            self.backend is other.backend
            and self.kind == other.kind
            and self.names >= other.names
            and all(covers(self.mode_of(name), other.mode_of(name)) for name in other.names)
        )

    def excludes(self, other: Taken) -> bool:
        """Whether `other` can surely not be held beside this."""
        return self.backend is other.backend and any(
            excludes(self.mode_of(name), other.mode_of(name)) for name in self.names & other.names
        )
