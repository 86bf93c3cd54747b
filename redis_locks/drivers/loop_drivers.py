"""One driver for each event loop, and its end with that of the loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator

from redis_locks.drivers.asynchronous import AsyncDriver
from redis_locks.drivers.endpoint import Endpoint

_Registered = tuple[
    "weakref.ref[asyncio.AbstractEventLoop]", AsyncDriver, AsyncGenerator[None, None]
]


class LoopDrivers:
    """One `AsyncDriver` per running event loop, closed with its loop.

    A WeakKeyDictionary would never let go, because the transport refers to the loop.
    Instead an async generator per loop is started and left suspended: whoever closes the
    loop properly shuts its async generators down, and ours closes the driver.
    """

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self._endpoint = endpoint
        self._prefix = prefix
        self._by_loop: dict[int, _Registered] = {}

    async def get(self) -> AsyncDriver:
        """Return the running loop's driver."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        driver = AsyncDriver(self._endpoint, self._prefix)
        guard = self._closing(id(loop), driver)
        self._by_loop[id(loop)] = (weakref.ref(loop), driver, guard)
        await anext(guard)
        return driver

    async def _closing(self, key: int, driver: AsyncDriver) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._by_loop.pop(key, None)
            await driver.aclose()
