"""What `redis_lock` refuses: what is no function, missing parentheses, wrong arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from redis_locks import redis_lock


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
    def made() -> None: ...

    made.__qualname__ = "made"  # as a function of a module has
    for target in (made, Celery, generator_free):
        with pytest.raises(TypeError, match="needs parentheses"):
            redis_lock(target)  # type: ignore[arg-type]


async def generator_free() -> None: ...


def test_a_local_decorator_without_parentheses_is_refused_when_called() -> None:
    @redis_lock
    def locked(a: int) -> None: ...

    with pytest.raises(TypeError, match="needs parentheses"):
        locked(5)  # type: ignore[arg-type]


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
