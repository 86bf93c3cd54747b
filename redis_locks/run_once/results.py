"""What a job's result is on the server: JSON text of a bounded size."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from redis_locks.exceptions import ResultNotStored

MAX_RESULT_BYTES: Final = 1 << 20
"""The most that a result may take as JSON; a larger one belongs into a database or a file."""


class Stored(NamedTuple):
    """A result as the server stores it, and as every caller gets it; or why it is not stored."""

    text: str
    value: Any = None
    problem: ResultNotStored | None = None


class ResultFormat(NamedTuple):
    """How results become JSON and come back, as for a JSONField of Django."""

    encoder: type[json.JSONEncoder]
    decoder: type[json.JSONDecoder]

    def store(self, name: str, result: object) -> Stored:
        """Return the result of job `name` as it will come back.

        Raises nothing: the work is done.
        """
        try:
            text = json.dumps(result, cls=self.encoder)
            size = len(text.encode())
            value = self.read(text)
        except Exception as error:  # noqa: BLE001 - an encoder of the project may raise anything
            why = (
                f"its result cannot be stored as JSON: {error}. Return other types, "
                "give run_once an encoder, or set store_result=False"
            )
            return Stored("", problem=not_stored(name, why, error))
        if size > MAX_RESULT_BYTES:
            why = (
                f"its result takes {size:,} bytes as JSON, and at most {MAX_RESULT_BYTES:,} can be "
                "stored. Keep it elsewhere and return its key"
            )
            return Stored("", problem=not_stored(name, why))
        return Stored(text, value)

    def read(self, text: str) -> Any:
        """Return the result that `text` stands for; None if none was stored."""
        return json.loads(text, cls=self.decoder) if text else None


def not_stored(name: str, why: str, cause: Exception | None = None) -> ResultNotStored:
    """Return the error that says so, for once: the job is done all the same."""
    msg = f"Job {name!r} is done and will not run again, but {why}. Later calls return None"
    error = ResultNotStored(msg, name)
    error.__cause__ = cause
    return error
