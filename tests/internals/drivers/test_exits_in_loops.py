"""An exit that interrupts an event loop as a reply comes; asyncio leaves its connection open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.connections.backends import backend_for
from tests.support.world import PATIENCE


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_loop_that_is_interrupted_at_a_reply_asks_on_another_connection(
    name: str, kind: type[BaseException]
) -> None:
    async def take(lock: str) -> None:
        async with Lock(lock, wait=PATIENCE):
            pass

    with asyncio.Runner() as runner:
        runner.run(take(name))
        driver, _ = runner.run(_of_loop())
        link = runner.run(driver.checkout())
        link.reader = _Interrupted(link.reader, kind)
        with pytest.raises(kind):
            runner.run(take(f"{name}:interrupted"))
        assert link.broken
        runner.run(take(f"{name}:next"))


async def _of_loop() -> Any:
    return backend_for(None).of_loop()


class _Interrupted:
    """A parser whose first reply is lost, as a signal's handler raises."""

    def __init__(self, reader: Any, kind: type[BaseException]) -> None:
        self.feed = reader.feed
        self._reader = reader
        self._kind = kind

    def gets(self) -> Any:
        self._reader.gets()
        raise self._kind
