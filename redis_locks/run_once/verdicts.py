"""`Verdict`: what Redis records of an attempt when it ends."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Self

from redis_locks.run_once import scripts
from redis_locks.scripts import Script

MOST_ERROR_CHARACTERS = 500


class Verdict(NamedTuple):
    """The script that ends the attempt, what it records, and the error if the attempt failed."""

    script: Script
    outcome: str
    error: BaseException | None

    @classmethod
    def done(cls, name: str, result: Any, *, stores: bool) -> Self:
        """Return the verdict that job `name` is done.

        Raises:
            TypeError: JSON has no such type as `result`.
            ValueError: There is a result that is not to be stored, or that contains NaN.
        """
        if not stores:
            if result is not None:
                msg = f"done() of job {name!r} got a result; to store it, set store_result=True"
                raise ValueError(msg)
            return cls(scripts.DONE, "", None)
        try:
            return cls(scripts.DONE, json.dumps(result, allow_nan=False), None)
        except (TypeError, ValueError) as error:
            msg = (
                f"the result of job {name!r} cannot be stored as JSON: {error}; "
                "return JSON types or set store_result=False"
            )
            raise (TypeError if isinstance(error, TypeError) else ValueError)(msg) from error

    @classmethod
    def failed(cls, error: BaseException | str) -> Self:
        """Return the verdict that the attempt failed."""
        if isinstance(error, str):
            return cls(scripts.FAIL, _line(error), RuntimeError(error))
        return cls(scripts.FAIL, _line(f"{type(error).__name__}: {_text(error)}"), error)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 - whatever it is, the attempt has to end
        return f"(its text cannot be had: {type(another).__name__})"


def _line(text: str) -> str:
    line = " ".join(text.split())[:MOST_ERROR_CHARACTERS] or "failed"
    return line.encode(errors="replace").decode()
