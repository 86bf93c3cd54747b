"""Which lock `redis_lock` takes: by a template, a callable or the function, and as it stands in a block."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy

from redis_locks import Semaphore, redis_lock
from tests.elsewhere import ais_free, is_free


def test_each_call_names_its_own_lock(name: str) -> None:
    @redis_lock(name + ":{account_id}")
    def locked(account_id: int) -> tuple[bool, bool]:
        return is_free(f"{name}:1"), is_free(f"{name}:2")

    assert locked(1) == (False, True)
    assert locked(account_id=2) == (True, False)


@pytest.mark.parametrize("lazy", [gettext_lazy, reverse_lazy])
def test_text_that_is_translated_lazily_is_no_name(lazy: Any) -> None:
    @redis_lock("account:{kind}")
    def locked(kind: object) -> None: ...

    with pytest.raises(TypeError, match=r"\{kind\} is lazy text.* name a value"):
        locked(lazy("Yes"))


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


def named(account_id: int) -> str:
    return f"account:{account_id}"


def test_a_function_of_the_module_may_give_the_name() -> None:
    assert callable(redis_lock(named)(lambda account_id: account_id))


def test_a_function_of_executed_text_may_give_the_name() -> None:
    text = "def own_name(): return 'x'\nlock = redis_lock(own_name)"
    exec(text, {"redis_lock": redis_lock})  # noqa: S102 - as an interactive session does


def test_in_a_block_doubled_braces_are_literal_ones(name: str) -> None:
    with redis_lock(name + ":{{x}}", wait=0) as hold:
        assert name + ":{x}" == hold.name
        assert not is_free(name + ":{x}")
    assert is_free(name + ":{x}")


def test_in_an_async_block_too(name: str) -> None:
    async def main() -> str:
        async with redis_lock(name + ":{{x}}", wait=0) as hold:
            return hold.name

    assert name + ":{x}" == asyncio.run(main())


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
