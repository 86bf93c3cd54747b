"""The marker of an operation: a key that the same EXEC writes, and that proves its effects.

Every attempt WATCHes the marker. So of two attempts of one operation at most one is applied, even
in two processes. This holds while one of them is still on its way through a dead connection.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from redis_locks.values.identity import new_operation

VOID = "void"
"""Written as the marker of an operation that was given up, so that a late EXEC fails."""


_JSON = json.JSONEncoder(allow_nan=False)
_SAME = frozenset({bool, int, str, type(None)})
"""What always comes back from JSON as it was."""


class Applied(NamedTuple):
    """The transaction was applied, or had nothing to write; the function's value."""

    value: Any


class Operation:
    """One call's view of its operation.

    Attributes:
        id: Names the operation.
        given: Whether the caller chose the id, so that other calls may have it too.
    """

    __slots__ = ("_token", "_values", "given", "id")

    def __init__(self, given: str | None) -> None:
        """Name the operation as the caller does, or anew."""
        self._token = new_operation()
        """Tells this call's marker from that of another call with the same id."""
        self.given = given is not None
        self.id = self._token if given is None else given
        self._values: list[Any] = []
        """What the function returned, by attempt; the marker says which attempt counts."""

    def marker(self, value: Any) -> str:
        """Return what the EXEC writes to the operation's key, along with the effects.

        Raises:
            TypeError: The id was given and the value is not plain JSON data, so that a repeated
                call could not return it.
        """
        self._values.append(value)
        text = f"{self._token} {len(self._values) - 1}"
        return f"{text} {_as_json(value)}" if self.given else text

    def applied(self, found: bytes | str | None) -> Applied | None:
        """Return what the applied attempt returned, by the operation's key; None: none was."""
        if found is None:
            return None
        text = found.decode() if isinstance(found, bytes) else found
        if text == VOID:
            return None
        token, attempt, *stored = text.split(" ", 2)
        if token == self._token:
            return Applied(self._values[int(attempt)])
        return Applied(json.loads(stored[0]))


def _as_json(value: Any) -> str:
    try:
        text = _JSON.encode(value)
    except (TypeError, ValueError) as error:
        raise _not_plain(value) from error
    if type(value) not in _SAME and json.loads(text) != value:
        raise _not_plain(value)
    return text


def _not_plain(value: object) -> TypeError:
    return TypeError(
        f"with an operation_id, the function's value is stored as JSON and returned again when the "
        f"operation is repeated; {value!r} would not come back the same. Return None or plain data "
        "(str, int, float, bool, list, dict with str keys)"
    )
