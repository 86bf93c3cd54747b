"""What interrupts an event loop at a reply leaves no task waiting for it, nor with another's."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from redis_locks import optimistic
from redis_locks.testing.server import EmbeddedServer
from tests.support.interrupts import Stop, sweep, unheard
from tests.support.world import PATIENCE


# A link that was interrupted as it opened is closed when nobody refers to it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.ci)])
def test_no_interrupt_mixes_replies_up_or_loses_one(
    redis_server: EmbeddedServer, name: str, step: int
) -> None:
    keys = [f"{name}:{place}" for place in range(3)]
    with redis_server.client() as client:
        client.mset(dict(zip(keys, keys, strict=True)))

    async def read(key: str) -> bytes:
        async def body(pipe: Any) -> bytes:
            return await pipe.get(key)

        async with asyncio.timeout(PATIENCE):
            return await optimistic.arun(body, key)

    def check(where: str) -> None:
        for key in keys[1:]:
            assert key.encode() == runner.run(read(key)), where

    with asyncio.Runner() as runner:
        # asyncio tells it what a connection's callback raised.
        runner.get_loop().set_exception_handler(
            lambda _, context: unheard.append(id(context.get("exception")))
        )
        sweep(lambda: runner.run(read(keys[0])), step, check, kind=Stop)
    gc.collect()  # here, where such a warning is expected
