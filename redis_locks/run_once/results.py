"""What Redis records of an attempt as it ends: a result, as JSON of a bounded size, or an error."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, Self

from redis_locks.exceptions import ResultNotStored
from redis_locks.run_once import scripts
from redis_locks.scripts import Script

MAX_RESULT_BYTES: Final = 1 << 20
"""The most that a result may take as JSON; a larger one belongs into a database or a file."""

MOST_ERROR_CHARACTERS = 500


class ResultFormat(NamedTuple):
    """How results become JSON and come back, as for a JSONField of Django."""

    encoder: type[json.JSONEncoder]
    decoder: type[json.JSONDecoder]

    def store(self, name: str, result: object) -> tuple[str, Any]:
        """Return the result of job `name` as text, and as it will come back.

        Raises:
            ResultNotStored: It is no JSON, or too large.
        """
        try:
            text = json.dumps(result, cls=self.encoder)
            size, value = len(text.encode()), self.read(text)
        except Exception as error:  # an encoder of the project may raise anything
            why = (
                f"its result cannot be stored as JSON: {error}. Return other types, "
                "give run_once an encoder, or set store_result=False"
            )
            raise _not_stored(name, why) from error
        if size > MAX_RESULT_BYTES:
            why = (
                f"its result takes {size:,} bytes as JSON, and at most {MAX_RESULT_BYTES:,} can be "
                "stored. Keep it elsewhere and return its key"
            )
            raise _not_stored(name, why)
        return text, value

    def read(self, text: str) -> Any:
        """Return the result that `text` stands for; None if none was stored."""
        return json.loads(text, cls=self.decoder) if text else None


def _not_stored(name: str, why: str) -> ResultNotStored:
    msg = f"Job {name!r} is done and will not run again, but {why}. Later calls return None"
    return ResultNotStored(msg, name)


class Verdict(NamedTuple):
    """The script that ends the attempt, what it records, and what the caller is told.

    `error`: why the attempt failed; or, of one that is done, why its result is not stored.
    `result`: what every caller gets.
    """

    script: Script
    outcome: str
    error: BaseException | None = None
    result: Any = None

    @classmethod
    def done(cls, name: str, result: Any, results: ResultFormat | None) -> Self:
        """Return the verdict that job `name` is done, whatever its result.

        None stores no results.
        """
        if results is not None:
            try:
                text, value = results.store(name, result)
            except ResultNotStored as problem:
                return cls(scripts.DONE, "", problem)
            return cls(scripts.DONE, text, result=value)
        if result is None:
            return cls(scripts.DONE, "")
        why = "done() got a result. To store it, set store_result=True"
        return cls(scripts.DONE, "", _not_stored(name, why))

    @classmethod
    def failed(cls, error: BaseException | str) -> Self:
        """Return the verdict that the attempt failed."""
        if isinstance(error, str):
            return cls(scripts.FAIL, _line(error), RuntimeError(error))
        return cls(scripts.FAIL, _line(f"{type(error).__name__}: {_text(error)}"), error)

    @classmethod
    def rolled_back(cls, error: BaseException | None) -> Self:
        """Return the verdict that what the attempt wrote was rolled back.

        It was because of `error`, if that is known.
        """
        if error is None:
            return cls.failed("its transaction was rolled back")
        failed = cls.failed(error)
        return failed._replace(outcome=_line(f"rolled back: {failed.outcome}"))

    @property
    def is_done(self) -> bool:
        """Whether it says that the job is done."""
        return self.script is scripts.DONE


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 - whatever it is, the attempt has to end
        return f"(its text is not available: {type(another).__name__})"


def _line(text: str) -> str:
    line = " ".join(text.split())[:MOST_ERROR_CHARACTERS] or "failed"
    return line.encode(errors="replace").decode()
