"""An interrupt that nobody keeps is gone, with all that its frames had.

No circle of ours keeps it for the garbage collector.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.drivers.blocking import BlockingLink
from tests.support.world import granted


class Closed(ConnectionResetError):
    """As a socket raises it."""

    def __init__(self) -> None:
        super().__init__(104, "the server has closed it")


Break = Callable[[], None]

pytestmark = [
    pytest.mark.filterwarnings("ignore:A hold of lock:ResourceWarning"),
    pytest.mark.usefixtures("uncollected"),
    pytest.mark.parametrize("kind", [KeyboardInterrupt, Closed]),
]


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def break_off(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let the next question of this thread be broken off."""
    plain, here = BlockingLink.exchange, threading.get_ident()

    def exchange(self: BlockingLink, packet: bytes) -> Any:
        if threading.get_ident() != here:  # a thread of another test asks
            return plain(self, packet)
        monkeypatch.undo()
        try:
            raise kind
        except BaseException as error:
            self.close_for(error)
            raise

    return lambda: monkeypatch.setattr(BlockingLink, "exchange", exchange)


def acquire_and_break_off(lock: Lock, break_off: Break) -> None:
    break_off()
    hold = granted(lock.acquire())
    hold.release()


def break_release_off(lock: Lock, break_off: Break) -> None:
    hold = granted(lock.acquire())
    break_off()
    hold.release()


CALLS = pytest.mark.parametrize("call", [acquire_and_break_off, break_release_off])


@CALLS
def test_what_the_caller_had_is_gone(
    call: Callable[[Lock, Break], None], name: str, break_off: Break
) -> None:
    lock = Lock(name)
    with lock:
        pass
    found: list[weakref.ref[object]] = []

    def run() -> None:
        had = {name}
        found.append(weakref.ref(had))
        call(lock, break_off)

    with suppress(KeyboardInterrupt):
        run()
    assert [None] == [each() for each in found]
