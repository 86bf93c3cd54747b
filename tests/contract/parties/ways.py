"""The public ways in: what holds a lock while a block or a call runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.views import View

from redis_locks import (
    Hold,
    Lock,
    LockNotAvailable,
    RedisLockMixin,
    Semaphore,
    inspection,
    redis_lock,
    run_once,
)
from redis_locks.rows import lock_model, lock_rows
from tests.ledger.models import Counter

T = TypeVar("T")

NESTS, WAITS, REFUSED = "nests", "waits", "refused"

ROW: Final = "the row of these tests"


class Way:
    """A public way in: it never waits. Two of one name exclude each other.

    Args:
        title: What users call it.
        nests: Whether code inside may take the same again.
    """

    asks_database = False

    def __init__(self, title: str, *, nests: bool) -> None:
        self.title = title
        self.nests = nests

    def run(self, name: str, body: Callable[[], str]) -> str:
        """Call `body` inside, from blocking code."""
        raise NotImplementedError

    async def arun(self, name: str, body: Callable[[], Awaitable[str]]) -> str:
        """Await `body()` inside."""
        raise NotImplementedError

    def word(self, word: str) -> str:
        """What becomes of a caller that `word` says of locks that nest."""
        return word if self.nests or word != NESTS else WAITS


class Block(Way):
    """One that is a context manager, sync and async.

    Args:
        enter: Returns the context manager.
        aenter: Does so in async code, if that has to await.
    """

    def __init__(
        self,
        title: str,
        enter: Callable[[str], Any],
        aenter: Callable[[str], Awaitable[Any]] | None = None,
        *,
        nests: bool = True,
        asks_database: bool = False,
    ) -> None:
        super().__init__(title, nests=nests)
        self.asks_database = asks_database
        self._enter = enter
        self._aenter = aenter

    @property
    def is_acquired_by_hand(self) -> bool:
        """Whether what it enters has `acquire` and `aacquire`, too."""
        return self.title in {
            "Lock",
            "a set",
            "lock_rows",
            "lock_model",
            "Semaphore",
            "run_once",
        }

    def enter(self, name: str) -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = self._enter(name)
        return found

    async def aenter(self, name: str) -> AbstractAsyncContextManager[Any]:
        found: AbstractAsyncContextManager[Any] = (
            self._enter(name) if self._aenter is None else await self._aenter(name)
        )
        return found

    def run(self, name: str, body: Callable[[], str]) -> str:
        with self.enter(name):
            return body()

    async def arun(self, name: str, body: Callable[[], Awaitable[str]]) -> str:
        async with await self.aenter(name):
            return await body()


class Call(Way):
    """One that decorates a function."""

    def __init__(self, title: str, decorate: Callable[[str], Any], *, nests: bool = True) -> None:
        super().__init__(title, nests=nests)
        self._decorate = decorate

    def run(self, name: str, body: Callable[[], str]) -> str:
        words = []

        @self._decorate(name)
        def call() -> None:
            words.append(body())

        call()
        return words.pop()

    async def arun(self, name: str, body: Callable[[], Awaitable[str]]) -> str:
        words = []

        @self._decorate(name)
        async def call() -> None:
            words.append(await body())

        await call()
        return words.pop()


class OfView(Way):
    """A class-based view with the mixin."""

    def run(self, name: str, body: Callable[[], str]) -> str:
        class Asked(_Raising):
            lock_name = name

            def post(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse(body())

        return self._text(Asked.as_view()(RequestFactory().post("/")))

    async def arun(self, name: str, body: Callable[[], Awaitable[str]]) -> str:
        class Asked(_Raising):
            lock_name = name

            async def post(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse(await body())

        return self._text(await Asked.as_view()(RequestFactory().post("/")))  # type: ignore[misc]

    def _text(self, response: Any) -> str:
        text: bytes = response.content
        return text.decode()


class _Raising(RedisLockMixin, View):
    lock_wait = 0

    def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:
        raise error


def taken(hold: Hold | None) -> Hold:
    """Return what was acquired, or raise as a block does."""
    if hold is None:
        msg = "somebody else holds it"
        raise LockNotAvailable(msg)
    return hold


async def _ataken(name: str) -> Hold:
    return taken(await Lock(name).aacquire(wait=0))


def _rows(name: str) -> Any:
    return lock_rows(Counter.objects.filter(name=ROW), wait=0)


WAYS: Final[list[Way]] = [
    Block("Lock", lambda name: Lock(name, wait=0)),
    Block("a set", lambda name: Lock(name, f"{name}:more", wait=0)),
    Block("Lock.hold", lambda name: Lock(name).hold(wait=0)),
    Block("a hold taken by hand", lambda name: taken(Lock(name).acquire(wait=0)), _ataken),
    Block("lock_rows", _rows, asks_database=True),
    Block("lock_model", lambda name: lock_model(Counter, wait=0)),
    Block("Semaphore", lambda name: Semaphore(name, 1, wait=0), nests=False),
    Block("run_once", run_once, nests=False),
    Call("a decorated function", lambda name: redis_lock(name, wait=0)),
    Call("a function that runs once", run_once, nests=False),
    OfView("a view", nests=True),
]
BLOCKS: Final = [way for way in WAYS if isinstance(way, Block)]


def asked(way: Way, name: str) -> str:
    """What becomes of blocking code that asks here for what somebody has: a word for it."""
    held = [each.token for each in inspection.parties().holders]
    try:
        word = way.run(name, lambda: NESTS)
    except LockNotAvailable:
        word = WAITS
    except SynchronousOnlyOperation:
        word = REFUSED
    finally:
        if way.asks_database:
            connections.close_all()
    assert held == [each.token for each in inspection.parties().holders]
    return word


async def aasked(way: Way, name: str) -> str:
    """What becomes of async code that asks here; see `asked`."""

    async def body() -> str:
        return NESTS

    held = [each.token for each in (await inspection.aparties()).holders]
    try:
        word = await way.arun(name, body)
    except LockNotAvailable:
        word = WAITS
    finally:
        if way.asks_database:
            await sync_to_async(connections.close_all)()
    assert held == [each.token for each in (await inspection.aparties()).holders]
    return word


def every(ways: Iterable[Way]) -> pytest.MarkDecorator:
    """Run a test for each of these ways in."""
    database = pytest.mark.django_db(transaction=True)
    return pytest.mark.parametrize(
        "way",
        [
            pytest.param(way, id=way.title, marks=[database] if way.asks_database else [])
            for way in ways
        ],
    )


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a task to its end, and close the connections of its thread for the database."""

    async def whole() -> T:
        try:
            return await main
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(whole())
