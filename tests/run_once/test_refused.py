"""What `run_once` refuses: wrong arguments, names that do not fit, what is no function."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import Lock, run_once


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_attempts": 0}, ValueError, r"max_attempts must be from 1 .*, not 0"),
        ({"max_attempts": True}, TypeError, r"max_attempts must be a whole number, not True"),
        ({"max_attempts": 2.0}, TypeError, r"max_attempts must be a whole number, not 2\.0"),
        ({"done_ttl": 0}, ValueError, r"done_ttl must be between 0\.01 .* not 0"),
        ({"done_ttl": None}, TypeError, r"done_ttl must be a number of seconds .* not None"),
        ({"done_ttl": float("inf")}, ValueError, r"done_ttl must be a finite number"),
        ({"store_result": 1}, TypeError, r"store_result must be True or False, not 1"),
        ({"wait": -1}, ValueError, r"wait must be 0 .* not -1"),
        ({"lease": 0}, ValueError, r"lease must be between .* not 0"),
        ({"renew": None}, TypeError, r"renew must be True or False, not None"),
        ({"using": 3}, TypeError, r"using must be a string or None, not 3"),
        ({"label": b"x"}, TypeError, r"label must be a string or None, not b'x'"),
        ({"on_conflict": "wait"}, ValueError, r"on_conflict must be 'raise', .* not 'wait'"),
        (
            {"encoder": str},
            TypeError,
            r"encoder must be a subclass of json.JSONEncoder .* not <class",
        ),
        (
            {"decoder": 1},
            TypeError,
            r"decoder must be a subclass of json.JSONDecoder or None, not 1",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        run_once("x", **options)


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
