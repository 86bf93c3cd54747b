"""`redis_lock` on functions: for how long it holds the lock, and what the function keeps."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.utils.functional import SimpleLazyObject
from django.views.decorators.csrf import csrf_exempt

from redis_locks import Lock, redis_lock
from tests.elsewhere import ais_free, is_free


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

    async def main(awaitable: Awaitable[bool]) -> bool:
        return await awaitable

    assert asyncio.run(main(locked())) is False
    assert is_free(name)


def test_a_task_returned_by_a_sync_function_is_held_until_it_is_done(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # or the call is refused in a loop

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


def test_signature_name_documentation_and_attributes_are_kept(name: str) -> None:
    def plain(account_id: int, *, dry: bool = False) -> str:
        """Say something."""
        return f"{account_id}{dry}"

    locked = redis_lock(name)(csrf_exempt(plain))
    assert inspect.signature(locked) == inspect.signature(plain)
    assert (locked.__name__, locked.__doc__) == ("plain", "Say something.")
    assert locked.csrf_exempt is True  # type: ignore[attr-defined]
    assert inspect.isfunction(locked)


def test_a_lazy_argument_is_not_fetched_for_the_lock(name: str) -> None:
    fetched: list[int] = []
    user = SimpleLazyObject(lambda: fetched.append(1) or "user")

    @redis_lock(name)
    def locked(user: object) -> list[int]:
        return list(fetched)

    assert locked(user) == []


def test_it_is_a_lock(name: str) -> None:
    assert isinstance(redis_lock(name), Lock)


def test_a_partial_of_a_coroutine_function_is_awaited_under_the_lock(name: str) -> None:
    async def work(a: int, b: int) -> tuple[int, int, bool]:
        return a, b, await ais_free(name)

    locked: Callable[..., Any] = redis_lock(name)(functools.partial(work, 1))
    assert asyncio.run(locked(2)) == (1, 2, False)
