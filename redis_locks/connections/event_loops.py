"""`PerLoop`: one object for each event loop, closed with its loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes an object when a loop first asks for one, and closes it when the loop ends.

    For each loop, an async generator is started and left suspended: `asyncio.run` and others shut a
    loop's async generators down before they close it. A WeakKeyDictionary would never let go,
    because the objects refer to their loops.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[object]]) -> None:
        self._make = make
        self._close = close
        self._by_loop: dict[
            int, tuple[weakref.ref[asyncio.AbstractEventLoop], T, AsyncGenerator[None, None]]
        ] = {}

    def get(self) -> T:
        """Return the object of the running loop."""
        loop = asyncio.get_running_loop()
        entry = self._by_loop.get(id(loop))
        # Another loop may have the id of one that was not closed properly.
        if entry is not None and entry[0]() is loop:
            return entry[1]
        made = self._make()
        guard = self._until_closed(id(loop), made)
        self._by_loop[id(loop)] = (weakref.ref(loop), made, guard)
        with suppress(StopIteration):
            guard.__anext__().send(None)  # it starts, and never waits
        return made

    async def _until_closed(self, key: int, made: T) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._by_loop.pop(key, None)
            await self._close(made)
