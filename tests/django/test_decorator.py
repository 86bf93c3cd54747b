"""`redis_lock` on functions: what it keeps, holds, refuses, and does on contention."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.utils.functional import SimpleLazyObject
from django.views.decorators.csrf import csrf_exempt

from redis_locks import Lock, LockNotAvailable, LockTimeout
from redis_locks.decorators import redis_lock
from tests import elsewhere
from tests.elsewhere import is_free


async def ais_free(name: str) -> bool:
    return await asyncio.to_thread(is_free, name)


# What is locked, for how long


def test_the_lock_is_held_while_the_function_runs_and_released_after(name: str) -> None:
    @redis_lock(name)
    def locked(a: int, *, b: int) -> tuple[int, int, bool]:
        return a, b, is_free(name)

    assert locked(1, b=2) == (1, 2, False)
    assert is_free(name)


def test_the_lock_is_held_while_a_coroutine_runs_and_released_after(name: str) -> None:
    @redis_lock(name)
    async def locked(a: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return a, await ais_free(name)

    assert inspect.iscoroutinefunction(locked)
    assert asyncio.run(locked(1)) == (1, False)
    assert is_free(name)


def test_an_error_of_the_function_releases_and_comes_out_as_it_is(name: str) -> None:
    @redis_lock(name)
    def locked() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        locked()
    assert is_free(name)


def test_each_call_names_its_own_lock(name: str) -> None:
    @redis_lock(name + ":{account_id}")
    def locked(account_id: int) -> tuple[bool, bool]:
        return is_free(f"{name}:1"), is_free(f"{name}:2")

    assert locked(1) == (False, True)
    assert locked(account_id=2) == (True, False)


def test_a_callable_names_the_lock(name: str) -> None:
    @redis_lock(lambda account_id: f"{name}:{account_id}")
    def locked(account_id: int) -> bool:
        return is_free(f"{name}:{account_id}")

    assert locked(1) is False


def test_without_a_name_the_lock_is_the_functions() -> None:
    @redis_lock()
    def locked() -> bool:
        return is_free(
            f"{__name__}.{test_without_a_name_the_lock_is_the_functions.__name__}.<locals>.locked"
        )

    assert locked() is False


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


def test_a_coroutine_returned_by_a_sync_function_is_held_until_it_is_done(name: str) -> None:
    async def work() -> bool:
        await asyncio.sleep(0)
        return await ais_free(name)

    @redis_lock(name)
    def locked() -> Awaitable[bool]:
        return work()

    async def main() -> bool:
        return await locked()

    assert asyncio.run(main()) is False
    assert is_free(name)


def test_a_task_returned_by_a_sync_function_is_held_until_it_is_done(name: str) -> None:
    async def main() -> list[bool]:
        go_on = asyncio.Event()

        @redis_lock(name)
        def locked() -> asyncio.Task[bool]:
            return asyncio.create_task(go_on.wait())  # type: ignore[arg-type]

        task = locked()
        seen = [await ais_free(name)]
        go_on.set()
        await task
        hold = await Lock(name).aacquire(wait=5)
        assert hold is not None
        await hold.arelease()
        return seen

    assert asyncio.run(main()) == [False]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_returned_coroutine_that_nobody_awaits_does_not_keep_the_lock(name: str) -> None:
    async def work() -> None: ...

    @redis_lock(name)
    def locked() -> Awaitable[None]:
        return work()

    locked()
    assert is_free(name)


def test_a_decorated_function_may_be_called_by_many_threads(name: str) -> None:
    running: list[int] = []
    most: list[int] = []

    @redis_lock(name, wait=30)
    def locked() -> None:
        running.append(1)
        most.append(len(running))
        running.pop()

    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(locked) for _ in range(8)))

    asyncio.run(main())
    assert most == [1] * 8


# What the decorated function keeps


def test_signature_name_documentation_and_attributes_are_kept(name: str) -> None:
    def plain(account_id: int, *, dry: bool = False) -> str:
        """Say something."""
        return f"{account_id}{dry}"

    locked = redis_lock(name)(csrf_exempt(plain))
    assert inspect.signature(locked) == inspect.signature(plain)
    assert (locked.__name__, locked.__doc__) == ("plain", "Say something.")
    assert locked.csrf_exempt is True  # type: ignore[attr-defined]
    assert inspect.isfunction(locked)


# What cannot be decorated


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


def named(account_id: int) -> str:
    return f"account:{account_id}"


def test_a_function_of_the_module_may_give_the_name() -> None:
    assert callable(redis_lock(named)(lambda account_id: account_id))


def test_a_function_of_executed_text_may_give_the_name() -> None:
    text = "def own_name(): return 'x'\nlock = redis_lock(own_name)"
    exec(text, {"redis_lock": redis_lock})  # noqa: S102 - as an interactive session does


def test_a_lazy_argument_is_not_fetched_for_the_lock(name: str) -> None:
    fetched: list[int] = []
    user = SimpleLazyObject(lambda: fetched.append(1) or "user")

    @redis_lock(name)
    def locked(user: object) -> list[int]:
        return list(fetched)

    assert locked(user) == []


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


# Blocks


def test_a_block_takes_the_name_literally(name: str) -> None:
    with redis_lock(name + ":{x}", wait=0) as hold:
        assert hold.name == name + ":{x}"
        assert not is_free(name + ":{x}")
    assert is_free(name + ":{x}")


def test_an_async_block_takes_the_name_literally(name: str) -> None:
    async def main() -> str:
        async with redis_lock(name + ":{x}", wait=0) as hold:
            return hold.name

    assert asyncio.run(main()) == name + ":{x}"


@pytest.mark.parametrize("source", [None, named])
def test_a_block_without_a_name_of_its_own_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="a block needs"), redis_lock(source):
        pass
    with pytest.raises(TypeError, match="a block needs"):
        _ = redis_lock(source).name
    with pytest.raises(TypeError, match="a block needs"):
        asyncio.run(redis_lock(source).aacquire())  # type: ignore[arg-type]


def test_a_block_cannot_be_skipped(name: str) -> None:
    with pytest.raises(TypeError, match="a block raises"), redis_lock(name, on_conflict="skip"):
        pass


def test_it_is_a_lock(name: str) -> None:
    assert isinstance(redis_lock(name), Lock)


# Contention


def test_a_call_that_does_not_wait_raises_lock_not_available(name: str) -> None:
    locked = redis_lock(name, wait=0)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(LockNotAvailable) as raised:
        locked()
    assert type(raised.value) is LockNotAvailable


def test_a_call_that_waits_too_long_raises_lock_timeout(name: str) -> None:
    locked = redis_lock(name, wait=0.05)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(LockTimeout):
        locked()


def test_skip_returns_none_without_a_call(name: str) -> None:
    called: list[int] = []

    @redis_lock(name, wait=0, on_conflict="skip")
    def locked() -> None:
        called.append(1)

    @redis_lock(name, wait=0, on_conflict="skip")
    async def alocked() -> None:
        called.append(1)

    with elsewhere.held(Lock(name)):
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

    with elsewhere.held(Lock(name)):
        assert redis_lock(name, wait=0, on_conflict=instead)(plain)(1, b=2) == (name, 1, 2)
        for callback in (instead, ainstead):
            alocked = redis_lock(name, wait=0, on_conflict=callback)(aplain)
            assert asyncio.run(alocked(1, b=2)) == (name, 1, 2)


def test_a_sync_function_cannot_answer_contention_asynchronously(name: str) -> None:
    async def instead(error: LockNotAvailable) -> None: ...

    locked = redis_lock(name, wait=0, on_conflict=instead)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(TypeError, match="must not be async"):
        locked()


def test_contention_inside_the_function_is_not_taken_for_its_own(name: str) -> None:
    @redis_lock(name, on_conflict="skip")
    def locked() -> None:
        raise LockNotAvailable("another one", "other")

    with pytest.raises(LockNotAvailable, match="another one"):
        locked()


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


def test_a_partial_of_a_coroutine_function_is_awaited_under_the_lock(name: str) -> None:
    async def work(a: int, b: int) -> tuple[int, int, bool]:
        return a, b, await ais_free(name)

    locked: Callable[..., Any] = redis_lock(name)(functools.partial(work, 1))
    assert asyncio.run(locked(2)) == (1, 2, False)
