"""A crowd whose connection breaks asks again spread out, but in the time of each call."""

from __future__ import annotations

import asyncio
import os
import signal
from time import monotonic

import pytest

from redis_locks import Lock, LockBackendError
from redis_locks.protocol import acquire
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE

REPLY, WAIT = 1.0, 1.5


def test_a_pause_before_asking_again_ends_with_the_call(
    private_server: EmbeddedServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last question of a wait is not answered, and the wait is over by then."""
    monkeypatch.setattr(acquire, "_LONGEST_SPREAD", 10 * PATIENCE)
    monkeypatch.setattr(acquire, "_EACH", 10 * PATIENCE)
    assert private_server.pid is not None
    url = f"{private_server.url}?socket_timeout={REPLY}"

    async def wait() -> float:
        began = monotonic()
        with pytest.raises(LockBackendError):
            await Lock(name, using=url, lease=0.6).aacquire(wait=WAIT)  # asks every 0.6 s
        return monotonic() - began

    async def main() -> list[float]:
        hold = await Lock(name, using=url, lease=PATIENCE).aacquire()
        assert hold is not None
        waits = [asyncio.create_task(wait()) for _ in range(5)]
        await asyncio.sleep(0.9)
        os.kill(private_server.pid or 0, signal.SIGSTOP)
        try:
            return await asyncio.gather(*waits)
        finally:
            os.kill(private_server.pid or 0, signal.SIGCONT)
            hold.drop()

    assert max(asyncio.run(main())) < WAIT + REPLY + PATIENCE / 2
