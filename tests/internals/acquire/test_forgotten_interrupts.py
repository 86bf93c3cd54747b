"""An interrupt that nobody keeps is gone, with all that its frames had: no circle of ours keeps it for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from redis_locks import Hold, Lock
from redis_locks.drivers.blocking import BlockingLink
from tests.support.interrupts import renewed

pytestmark = pytest.mark.filterwarnings("ignore:A hold of lock:ResourceWarning")


class Closed(ConnectionResetError):
    """As a socket raises it."""

    def __init__(self) -> None:
        super().__init__(104, "the server has closed it")


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("verb", ["acquire", "release"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, Closed])
def test_what_was_held_by_hand_is_renewed_no_longer(
    verb: str, kind: type[BaseException], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, other = Lock(name), f"{name}:other"
    hold = lock.acquire()
    assert hold
    if verb == "acquire":
        hold.release()

    def broken(self: BlockingLink, packet: bytes) -> Any:
        monkeypatch.undo()
        try:
            raise kind
        except BaseException as error:
            self.close_for(error)
            raise

    def run() -> Hold | None:
        kept = Lock(other).acquire()
        assert kept
        monkeypatch.setattr(BlockingLink, "exchange", broken)
        if verb == "acquire":
            return lock.acquire()
        hold.release()
        return None

    with suppress(KeyboardInterrupt):
        run()
    assert 0 == renewed(other)
