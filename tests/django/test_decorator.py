"""`redis_lock` on functions: how long it holds, its name, what it does and what it refuses."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt

from redis_locks import (
    LockNotAvailable,
    LockTimeout,
    Semaphore,
    redis_lock,
    run_once,
    unique_task,
)
from redis_locks.testing import held
from tests.elsewhere import ais_free, is_free


def test_an_error_of_the_function_releases_and_comes_out_as_it_is(name: str) -> None:
    @redis_lock(name)
    def locked() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        locked()
    assert is_free(name)


def test_methods_and_static_methods_can_be_locked(name: str) -> None:
    class Job:
        key = name

        @redis_lock("{self.key}")
        def run(self) -> bool:
            return is_free(name)

        @staticmethod
        @redis_lock(name)
        def static() -> bool:
            return is_free(name)

        @classmethod
        @redis_lock("{cls.key}")
        def of_class(cls) -> bool:
            return is_free(name)

    assert [Job().run(), Job.static(), Job.of_class()] == [False, False, False]


def test_a_sync_function_that_returns_an_awaitable_is_refused_and_holds_nothing(name: str) -> None:
    async def work() -> None:
        pytest.fail("it was called")

    @redis_lock(name)
    def locked() -> Awaitable[None]:
        return work()

    with pytest.raises(TypeError, match="returned an awaitable"):
        locked()
    assert is_free(name)


def test_signature_name_documentation_and_attributes_are_kept(name: str) -> None:
    def plain(account_id: int, *, dry: bool = False) -> str:
        """Say something."""
        return f"{account_id}{dry}"

    locked = redis_lock(name)(csrf_exempt(plain))
    assert inspect.signature(locked) == inspect.signature(plain)
    assert (locked.__name__, locked.__doc__) == ("plain", "Say something.")
    assert locked.csrf_exempt is True  # type: ignore[attr-defined]
    assert inspect.isfunction(locked)

    @redis_lock(name)
    async def coroutine() -> None: ...

    assert inspect.iscoroutinefunction(coroutine)


# What a decorated function does when somebody else holds its lock: raise, skip, or answer


def test_a_call_that_waits_too_long_raises_lock_timeout(name: str) -> None:
    locked = redis_lock(name, wait=0.05)(lambda: None)
    with held(name), pytest.raises(LockTimeout):
        locked()


def test_skip_returns_none_without_a_call(name: str) -> None:
    called: list[int] = []

    @redis_lock(name, wait=0, on_conflict="skip")
    def locked() -> None:
        called.append(1)

    @redis_lock(name, wait=0, on_conflict="skip")
    async def alocked() -> None:
        called.append(1)

    with held(name):
        assert locked() is None  # type: ignore[func-returns-value]
        asyncio.run(alocked())
    assert called == []


def test_a_callable_decides_what_is_returned(name: str) -> None:
    def instead(error: LockNotAvailable, a: int, *, b: int) -> tuple[str, int, int]:
        return error.name, a, b

    async def ainstead(error: LockNotAvailable, a: int, *, b: int) -> tuple[str, int, int]:
        return error.name, a, b

    def plain(a: int, *, b: int) -> Any: ...

    async def aplain(a: int, *, b: int) -> Any: ...

    with held(name):
        assert redis_lock(name, wait=0, on_conflict=instead)(plain)(1, b=2) == (name, 1, 2)
        for callback in (instead, ainstead):
            alocked = redis_lock(name, wait=0, on_conflict=callback)(aplain)
            assert asyncio.run(alocked(1, b=2)) == (name, 1, 2)


def test_a_sync_function_cannot_answer_contention_asynchronously(name: str) -> None:
    async def instead(error: LockNotAvailable) -> None: ...

    locked = redis_lock(name, wait=0, on_conflict=instead)(lambda: None)
    with held(name), pytest.raises(TypeError, match="must not be async"):
        locked()


def test_contention_inside_the_function_is_not_taken_for_its_own(name: str) -> None:
    @redis_lock(name, on_conflict="skip")
    def locked() -> None:
        raise LockNotAvailable("another one", "other")

    with pytest.raises(LockNotAvailable, match="another one"):
        locked()


# Which lock `redis_lock` takes: by a template, a callable or the function, and as it stands in a
# block


@pytest.mark.parametrize("lazy", [gettext_lazy, reverse_lazy])
def test_text_that_is_translated_lazily_is_no_name(lazy: Any) -> None:
    @redis_lock("account:{kind}")
    def locked(kind: object) -> None: ...

    with pytest.raises(TypeError, match=r"\{kind\} is lazy text.* name a value"):
        locked(lazy("Yes"))


def named(account_id: int) -> str:
    return f"account:{account_id}"


def test_in_a_block_doubled_braces_are_literal_ones(name: str) -> None:
    with redis_lock(name + ":{{x}}", wait=0) as hold:
        assert name + ":{x}" == hold.name
        assert not is_free(name + ":{x}")
    assert is_free(name + ":{x}")


@pytest.mark.parametrize("text", ["account:{x}", "account:{x!r}", "account:{", "}"])
@pytest.mark.parametrize("made", [redis_lock, lambda text: Semaphore(text, 2)])
def test_a_field_in_the_name_of_a_block_is_an_error_that_says_what_to_write(
    made: Any, text: str
) -> None:
    lock = made(text)
    attempts = (
        lock.__enter__,
        lock.hold().__enter__,
        lock.acquire,
        lambda: asyncio.run(lock.__aenter__()),
        lambda: asyncio.run(lock.aacquire()),
        lambda: lock.name,
    )
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"write an f-string.*Lock\(\.\.\.\)"):
            attempt()


@pytest.mark.parametrize("source", [None, named])
def test_a_block_without_a_name_of_its_own_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="a block needs"), redis_lock(source):
        pass
    with pytest.raises(TypeError, match="a block needs"):
        _ = redis_lock(source).name
    with pytest.raises(TypeError, match="a block needs"):
        _ = redis_lock(source).names
    with pytest.raises(TypeError, match="a block needs"):
        asyncio.run(redis_lock(source).aacquire())  # type: ignore[arg-type]


def test_a_name_that_needs_the_database_is_read_in_a_thread(name: str) -> None:
    class Lazy:
        @property
        def pk(self) -> str:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return name
            raise SynchronousOnlyOperation

    @redis_lock("{user.pk}")
    async def locked(user: Lazy) -> bool:
        return await ais_free(name)

    assert asyncio.run(locked(Lazy())) is False


# What `redis_lock` refuses: what is no function, missing parentheses, wrong arguments


def generator() -> Iterator[int]:
    yield 1


def traced(function: Callable[[], object]) -> Callable[[], object]:
    return lambda: function()  # noqa: PLW0108 - as any decorator would


class Celery:
    def __call__(self) -> None: ...

    def apply_async(self) -> None: ...


class Plain:
    pass


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (generator, "with redis_lock"),
        (Plain, "RedisLockMixin or @method_decorator"),
        (Celery, r"Decorate its method:\n\n    class Celery"),
        (Celery(), "Write the task decorator above"),
        (staticmethod(lambda: None), "@staticmethod above"),
        (5, "not a function"),
    ],
)
def test_what_cannot_be_locked_is_refused_with_advice(target: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        redis_lock("name")(target)


@pytest.mark.parametrize("decorate", [redis_lock, run_once])
@pytest.mark.parametrize("made", [traced(generator), contextmanager(generator)])
def test_a_generator_that_would_run_without_the_lock_is_refused(
    decorate: Any, made: Callable[[], object], name: str
) -> None:
    async def later() -> object:
        return made()

    for call in (decorate(name)(made), async_to_sync(decorate(f"{name}:async")(later))):
        with pytest.raises(TypeError, match=f"Use a `with {decorate.__name__}"):
            call()
    assert is_free(name)


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


def test_a_block_cannot_be_skipped(name: str) -> None:
    with pytest.raises(TypeError, match="a block raises"), redis_lock(name, on_conflict="skip"):
        pass
