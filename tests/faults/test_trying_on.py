"""A server that is there but cuts connections off: who has a lease, or time to wait, tries on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.test import override_settings

from redis_locks import Hold, Lock, LockBackendError, LockLost
from tests.faults.proxy import Proxy
from tests.support.connections import CutShort, Unreachable, backend_for, run_blocking
from tests.support.world import Observer, Tasks, World, held, until

LOSSES = 7
"""In a row: more than a server that refuses connections is asked."""


def test_a_release_goes_on_while_its_lease_lasts(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name, using=proxy.url, renew=False, lease=60))
    proxy.lose(1, losses=LOSSES)
    world.release(hold)
    assert LOSSES == proxy.lost
    assert not hold.is_lost


def test_when_the_lease_is_over_it_gives_up(world: World, name: str, proxy: Proxy) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=0.5))
    proxy.lose(1, losses=10**9)
    with pytest.raises(LockBackendError, match="ends with its lease"):
        world.extend(hold, 0.5)
    assert hold.remaining == 0
    proxy.lose(0)
    with pytest.raises(LockLost):
        world.release(hold)


def is_released(world: World, hold: Hold) -> bool:
    """Release it; on a busy machine, its time may be over once more."""
    with suppress(LockBackendError):
        world.release(hold)
        return True
    return False


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_release_that_failed_has_its_time_again_when_it_is_tried_again(
    world: World, name: str, proxy: Proxy, server_side: Observer, partitions: int
) -> None:
    names = [f"{name}:{number}" for number in range(partitions)]
    settings = {"REPLY_TIMEOUT": 0.3, "RELEASE_TIMEOUT": 0.4, "PARTITIONS": partitions}
    with override_settings(REDIS_LOCKS={**settings, "STATISTICS": False}):
        hold = held(world, Lock(*names, using=proxy.url, renew=False, lease=60))
        proxy.part()
        with pytest.raises(LockBackendError):
            world.release(hold)
        proxy.heal()
        until(lambda: is_released(world, hold))
    assert not any(server_side.holder(each) for each in names)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[str]:
    """A URL where connections are taken and closed, as by a proxy without a server."""
    path = str(tmp_path / "door.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def close_all() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=close_all, daemon=True).start()
        yield f"unix://{path}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_is_cut_short_is_told_from_one_that_is_refused(
    tasks: Tasks, door: str
) -> None:
    async def kind_of_failure() -> type[Unreachable]:
        driver, _ = backend_for(door).of_loop()
        with pytest.raises(Unreachable) as caught:
            await driver.checkout()
        return caught.type

    with pytest.raises(CutShort):
        run_blocking(backend_for(door).driver.checkout())
    assert CutShort is tasks.run(kind_of_failure())
    with pytest.raises(Unreachable) as caught:
        run_blocking(backend_for(f"{door}.not").driver.checkout())
    assert Unreachable is caught.type
