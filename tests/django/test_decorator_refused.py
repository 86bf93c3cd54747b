"""What `redis_lock` refuses: what is no function, missing parentheses, wrong arguments."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from redis_locks import redis_lock, run_once, unique_task


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class Celery:
    def __call__(self) -> None: ...

    def apply_async(self) -> None: ...


class Plain:
    pass


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (generator, "with redis_lock"),
        (async_generator, "with redis_lock"),
        (Plain, "RedisLockMixin or @method_decorator"),
        (Celery, r"Decorate its method:\n\n    class Celery"),
        (Celery(), "Write the task decorator above"),
        (staticmethod(lambda: None), "@staticmethod above"),
        (classmethod(lambda cls: None), "@classmethod above"),
        (5, "not a function"),
    ],
)
def test_what_cannot_be_locked_is_refused_with_advice(target: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        redis_lock("name")(target)


def test_a_decorator_without_parentheses_is_refused_where_it_stands() -> None:
    for target in (Celery, generator_free):
        with pytest.raises(TypeError, match="needs parentheses"):
            redis_lock(target)  # type: ignore[arg-type]


async def generator_free() -> None: ...


BARE = (
    """\
@lock
def function(a): ...
""",
    """\
class View:
    @lock
    def method(self, a): ...
""",
    """\
class View:
    @lock
    @staticmethod
    def method(a): ...
""",
    """\
def outer():
    @lock
    def nested(a): ...
outer()
""",
    """\
def logged(function):
    @wraps(function)
    def call(*args):
        return function(*args)
    return call
class View:
    @logged
    @lock
    @logged
    def method(self, a): ...
""",
)


@pytest.mark.parametrize("source", BARE)
@pytest.mark.parametrize("lock", [redis_lock, run_once, unique_task])
def test_a_bare_decorator_of_a_function_method_or_nested_function_is_refused(
    lock: Any, source: str
) -> None:
    with pytest.raises(TypeError, match="needs parentheses"):
        exec(source, {"lock": lock, "wraps": functools.wraps, "__name__": "nobody"})  # noqa: S102


def test_a_function_method_or_nested_function_may_give_the_name() -> None:
    def nested(self: object, a: int) -> str:
        return f"nested:{a}"

    @functools.wraps(nested)
    def wrapped_name(*args: Any) -> str:
        return nested(*args)

    class View:
        def _name(self, a: int) -> str:
            return f"own:{a}"

        own = redis_lock(_name)(lambda self, a: a)
        local = redis_lock(nested)(lambda self, a: a)
        wrapped = redis_lock(wrapped_name)(lambda self, a: a)
        here = redis_lock(lambda self, a: f"here:{a}")(lambda self, a: a)

    for locked in (View().own, View().local, View().wrapped, View().here):
        assert 5 == locked(5)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": 5}, TypeError),
        ({"name": ""}, ValueError),
        ({"wait": -1}, ValueError),
        ({"lease": 0}, ValueError),
        ({"renew": 1}, TypeError),
        ({"using": 5}, TypeError),
        ({"label": 5}, TypeError),
        ({"on_conflict": "ignore"}, ValueError),
        ({"on_conflict": 5}, TypeError),
        ({"conflict_status": 200}, ValueError),
        ({"conflict_status": "409"}, TypeError),
        ({"conflict_status": 409, "on_conflict": "skip"}, ValueError),
    ],
)
def test_a_wrong_argument_is_refused_at_once(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(options))):
        redis_lock(**options)


def test_a_block_cannot_be_skipped(name: str) -> None:
    with pytest.raises(TypeError, match="a block raises"), redis_lock(name, on_conflict="skip"):
        pass
