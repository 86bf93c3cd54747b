"""The marker of an operation: a key that is written with its effects, and so proves them.

It is WATCHed by every attempt. So of two attempts of one operation, be it in two processes or
one of them still on its way through a dead connection, at most one is applied.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

VOID = "void"
"""Written over an operation given up in doubt, so that an EXEC still on its way fails."""


@dataclass
class Operation:
    """One call's view of its operation.

    Attributes:
        id: Names the operation.
        given: Whether the caller chose the id, so that other calls may bear it too.
        token: Tells this call's marker from one that another call with the same id left.
        values: What the function returned, by attempt: which one counts, the marker says.
    """

    id: str
    given: bool
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    values: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, given: str | None) -> Operation:
        """Return the operation that the caller named, or a new one."""
        return cls(given or uuid.uuid4().hex, given is not None)

    def marker(self, value: Any) -> str:
        """Return what to write, with the effects, to the operation's key.

        Raises:
            TypeError: The id was given and the value is not plain JSON data, so that a repeated
                call could not return it.
        """
        self.values.append(value)
        text = f"{self.token} {len(self.values) - 1}"
        return f"{text} {_as_json(value)}" if self.given else text

    def applied(self, found: bytes | str | None) -> tuple[Any] | None:
        """Return the value of the applied attempt; None if none was, as the operation's key says."""
        if found is None:
            return None
        text = found.decode() if isinstance(found, bytes) else found
        if text == VOID:
            return None
        token, attempt, *stored = text.split(" ", 2)
        if token == self.token:
            return (self.values[int(attempt)],)
        return (json.loads(stored[0]),)


def _as_json(value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _not_plain(value) from error
    if json.loads(text) != value:
        raise _not_plain(value)
    return text


def _not_plain(value: object) -> TypeError:
    return TypeError(
        f"with an operation_id, the function's value is stored as JSON and returned again when the "
        f"operation is repeated; {value!r} would not come back the same. Return None or plain data "
        "(str, int, float, bool, list, dict with str keys)"
    )
