"""One text for what a thread does and for what a task does, as in the product."""

from __future__ import annotations

import asyncio
import time
from typing import Any


class ThreadOrTask:
    """Calls a method where nothing suspends, or awaits its async twin.

    Args:
        tasks: Whether it is a task.
    """

    def __init__(self, *, tasks: bool) -> None:
        self._tasks = tasks

    async def _call(self, on: Any, verb: str, *args: Any, **options: Any) -> Any:
        if self._tasks:
            return await getattr(on, f"a{verb}")(*args, **options)
        return getattr(on, verb)(*args, **options)

    async def _sleep(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - there is no loop
