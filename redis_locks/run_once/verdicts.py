"""`Verdict`: what Redis records of an attempt when it ends."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from redis_locks.run_once import scripts
from redis_locks.run_once.results import ResultFormat, not_stored
from redis_locks.scripts import Script

MOST_ERROR_CHARACTERS = 500


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
            text, value, problem = results.store(name, result)
            return cls(scripts.DONE, text, problem, value)
        if result is None:
            return cls(scripts.DONE, "")
        why = "done() got a result. To store it, set store_result=True"
        return cls(scripts.DONE, "", not_stored(name, why))

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
