"""What `run_once` refuses: wrong arguments, names that do not fit, what is no function."""

from __future__ import annotations

import pytest

from redis_locks import Lock, run_once


def test_a_template_that_does_not_fit_is_refused_when_the_function_is_decorated() -> None:
    with pytest.raises(ValueError, match=r"\{order\} is not a parameter"):
        run_once("job:{order}")(lambda number: None)


def test_a_job_has_one_name() -> None:
    once = run_once(lambda: ["a", "b"])(lambda: None)
    with pytest.raises(ValueError, match="a job has one name"):
        once()


def test_what_is_no_function_cannot_be_decorated() -> None:
    class Task:
        def enqueue(self) -> None: ...

    def items():
        yield 1

    for odd in (Task(), items, Lock, classmethod(len), 5):
        with pytest.raises(TypeError, match="run_once cannot decorate"):
            run_once("x")(odd)  # type: ignore[arg-type]


def test_parentheses_may_not_be_forgotten() -> None:
    source = "@run_once\ndef job(): ..."
    with pytest.raises(TypeError, match="needs parentheses"):
        exec(source, {"run_once": run_once, "__name__": "nobody"})  # noqa: S102
