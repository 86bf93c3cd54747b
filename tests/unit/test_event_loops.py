"""One object for each event loop."""

from __future__ import annotations

import asyncio

import pytest

from redis_locks.connections import event_loops
from redis_locks.connections.event_loops import PerLoop


def test_a_loop_with_the_id_of_an_earlier_one_has_an_object_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a loop was dropped unclosed, and the next one is made at its place in memory."""
    monkeypatch.setattr(event_loops, "id", lambda _: 1, raising=False)

    async def close(_: object) -> None: ...

    of_loop = PerLoop(object, close)

    async def get() -> object:
        return of_loop.get()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        made = first.run(get())
        assert made is first.run(get())
        assert made is not second.run(get())
