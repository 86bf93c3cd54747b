"""Wrapped `__exit__` and `__aexit__`, as monitoring tools do it: each block ends its own hold.

They are taken from the class.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing
from typing import Any

import pytest

from redis_locks import Lock, LockNotAvailable, Semaphore, inspection, run_once
from redis_locks.rows import lock_rows

pytestmark = pytest.mark.usefixtures("own_prefix", "redis_server")

Wrap = Callable[[type, Callable[..., None]], Any]


@pytest.fixture
def put() -> Iterator[Callable[..., None]]:
    """Sets an attribute of a class as users do.

    `monkeypatch` looks at the attribute, which would change what is tested.
    """
    with ExitStack() as stack:

        def set_for_this_test(owner: type, method: str, value: Any) -> None:
            if method in vars(owner):
                stack.callback(setattr, owner, method, vars(owner)[method])
            else:
                stack.callback(delattr, owner, method)
            setattr(owner, method, value)

        yield set_for_this_test


def by_assignment(owner: type, put: Callable[..., None]) -> type:
    plain = owner.__exit__  # type: ignore[attr-defined]

    def wrapped(self: Any, *error: Any) -> Any:
        return plain(self, *error)

    put(owner, "__exit__", wrapped)
    return owner


def by_functools(owner: type, put: Callable[..., None]) -> type:
    class Timed(owner):  # type: ignore[misc, valid-type]
        def __enter__(self) -> Any:
            return super().__enter__()

        @functools.wraps(owner.__exit__)  # type: ignore[attr-defined]
        def __exit__(self, *error: object) -> Any:
            return super().__exit__(*error)

    return Timed


def by_an_alias(owner: type, put: Callable[..., None]) -> type:
    class Alias(owner):  # type: ignore[misc, valid-type]
        __exit__ = owner.__exit__  # type: ignore[attr-defined]

    return Alias


class Descriptor:
    """Wraps what the class has under a name, as wrapt does."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __get__(self, instance: object, owner: type) -> Any:
        bound = self.wrapped.__get__(instance, owner)
        return functools.partial(bound)


def by_a_descriptor(owner: type, put: Callable[..., None]) -> type:
    put(owner, "__exit__", Descriptor(inspect.getattr_static(owner, "__exit__")))
    return owner


WRAPPED = pytest.mark.parametrize(
    "wrap", [by_assignment, by_functools, by_an_alias, by_a_descriptor]
)


def held() -> set[str]:
    return {each.lock for each in inspection.parties().holders}


@WRAPPED
@pytest.mark.parametrize(
    ("owner", "options"),
    [(Lock, {}), (Semaphore, {"capacity": 1}), (run_once, {})],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_nested_blocks_end_their_own_holds(
    wrap: Wrap, owner: type, options: dict[str, Any], name: str, put: Callable[..., None]
) -> None:
    a, b, c = f"{name}:a", f"{name}:b", f"{name}:c"
    lock = wrap(owner, put)
    with lock(a, **options) as outer:
        with lock(b, **options):
            assert {a, b} == held()
        assert {a} == held()
        with lock(c, **options):
            assert {a, c} == held()
        outer.check()
    assert set() == held()


@WRAPPED
def test_a_nested_block_of_the_same_lock_leaves_the_outer_one(
    wrap: Wrap, name: str, put: Callable[..., None]
) -> None:
    lock = wrap(Lock, put)(name, wait=0)
    with lock as outer:
        with lock as inner:
            assert inner.token == outer.token
        assert {name} == held()
        outer.check()
    assert set() == held()


@WRAPPED
def test_blocks_of_two_threads_end_their_own_holds(
    wrap: Wrap, name: str, put: Callable[..., None]
) -> None:
    a, b, c = f"{name}:a", f"{name}:b", f"{name}:c"
    lock = wrap(Lock, put)

    def other() -> set[str]:
        with lock(b):
            return held()

    with ThreadPoolExecutor(1) as pool, lock(a):
        with lock(c):
            assert {a, b, c} == pool.submit(other).result()
            assert {a, c} == held()
        assert {a} == held()
    assert set() == held()


@WRAPPED
def test_blocks_on_an_exit_stack_end_their_own_holds(
    wrap: Wrap, name: str, put: Callable[..., None]
) -> None:
    a, b, c = f"{name}:a", f"{name}:b", f"{name}:c"
    lock = wrap(Lock, put)
    with ExitStack() as stack:
        stack.enter_context(lock(a))
        inner = stack.enter_context(ExitStack())
        inner.enter_context(lock(b))
        with lock(c):
            pass
        assert {a, b} == held()
        inner.close()
        assert {a} == held()
    assert set() == held()


class Proxy:
    """Stands for a lock, and calls its methods."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock

    def __enter__(self) -> Any:
        return self.lock.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self.lock.__exit__(*error)


def test_what_is_pushed_on_a_stack_and_what_a_proxy_enters_end_their_own_holds(name: str) -> None:
    a, b = Lock(f"{name}:a"), Proxy(Lock(f"{name}:b"))
    with ExitStack() as stack:
        a.__enter__()
        stack.push(a)
        with b:
            assert {f"{name}:a", f"{name}:b"} == held()
        assert {f"{name}:a"} == held()
    assert set() == held()


def through_a_plain_function(owner: type, put: Callable[..., None]) -> type:
    plain = owner.__enter__  # type: ignore[attr-defined]

    def timed(self: Any) -> Any:
        return plain(self)

    put(owner, "__enter__", timed)
    return owner


def through_another_method(owner: type, put: Callable[..., None]) -> type:
    class Timed(owner):  # type: ignore[misc, valid-type]
        def __enter__(self) -> Any:
            return self._timed()

        def _timed(self) -> Any:
            return super().__enter__()

    return Timed


@pytest.mark.parametrize("wrap", [through_a_plain_function, through_another_method])
def test_a_suspended_generator_lets_nobody_in_although_its_enter_is_wrapped(
    wrap: Wrap, name: str, put: Callable[..., None]
) -> None:
    lock = wrap(Lock, put)(name, wait=0)

    def holds() -> Iterator[bool]:
        with lock:
            yield True

    with closing(holds()) as one, closing(holds()) as other:
        assert next(one)
        with pytest.raises(LockNotAvailable):
            next(other)


def test_async_blocks_whose_end_is_wrapped_end_their_own_holds(
    name: str, put: Callable[..., None]
) -> None:
    a, b, c = f"{name}:a", f"{name}:b", f"{name}:c"
    plain: Any = Lock.__aexit__

    async def wrapped(self: Lock, *error: Any) -> None:
        await plain(self, *error)

    put(Lock, "__aexit__", wrapped)

    async def main() -> None:
        async with Lock(a) as outer:
            async with Lock(b):
                pass
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(Lock(b))
                async with Lock(c):
                    pass
                assert {a, b} == await asyncio.to_thread(held)
            assert {a} == await asyncio.to_thread(held)
            outer.check()

    asyncio.run(main())
    assert set() == held()


def test_the_methods_of_the_class_can_be_looked_at() -> None:
    for owner in (Lock, Semaphore, run_once, lock_rows):
        assert "__exit__" == owner.__exit__.__name__
        assert "__aexit__" == owner.__aexit__.__name__
