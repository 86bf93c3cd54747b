"""One vocabulary for `run` and `arun`: write a body once, as a coroutine function of a `Pipe`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Protocol

from redis_locks import optimistic
from tests.support.connections import run_blocking
from tests.support.world import Tasks, Threads


class Pipe:
    """A watching pipeline of either kind: reads are awaited, everything else goes through."""

    def __init__(self, pipe: Any) -> None:
        self.raw = pipe

    async def read(self, command: str, *args: Any) -> Any:
        answer = getattr(self.raw, command)(*args)
        return await answer if isawaitable(answer) else answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


Body = Callable[[Pipe], Awaitable[Any]]


class Side(Protocol):
    kind: str
    world: Any

    def run(self, body: Body, *keys: str, **options: Any) -> Any: ...
    def conflicts(self, **options: Any) -> Any: ...


class BlockingSide:
    kind = "blocking"

    def __init__(self) -> None:
        self.world = Threads()

    def run(self, body: Body, *keys: str, **options: Any) -> Any:
        return optimistic.run(lambda pipe: run_blocking(body(Pipe(pipe))), *keys, **options)

    def conflicts(self, **options: Any) -> Any:
        return optimistic.conflicts(**options)


class AsyncSide:
    kind = "async"

    def __init__(self) -> None:
        self.world = Tasks()

    async def arun(self, body: Body, *keys: str, **options: Any) -> Any:
        return await optimistic.arun(lambda pipe: body(Pipe(pipe)), *keys, **options)

    def run(self, body: Body, *keys: str, **options: Any) -> Any:
        return self.world.run(self.arun(body, *keys, **options))

    def conflicts(self, **options: Any) -> Any:
        return self.world.run(optimistic.aconflicts(**options))


class Adding:
    """A body that reads, calls `meanwhile` with the attempt's number, adds, and returns the sum."""

    def __init__(
        self, key: str, amount: int = 1, meanwhile: Callable[[int], Any] | None = None
    ) -> None:
        self.key = key
        self.amount = amount
        self.meanwhile = meanwhile
        self.calls = 0

    async def __call__(self, pipe: Pipe) -> int:
        self.calls += 1
        found = int(await pipe.read("get", self.key) or 0)
        if self.meanwhile is not None:
            self.meanwhile(self.calls)
        pipe.multi()
        pipe.incrby(self.key, self.amount)
        return found + self.amount
