"""What a holder believes about its lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from redis_locks.drivers.base import run_blocking
from redis_locks.protocol import renewal
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.renewal import note
from tests.support.waiting import PATIENCE, until


def ends_at(hold: Any) -> float:
    """When the lease of `hold` ends, as the holder believes, by the monotonic clock."""
    deadline: float = hold.lease.deadline
    return deadline


def until_renewed(hold: Any, *, by: float = 0.0) -> None:
    """Return once the lease ends more than `by` seconds later than it does now."""
    before = ends_at(hold)
    until(lambda: ends_at(hold) > before + by)


def renew(hold: Any) -> None:
    """Renew `hold` now, as the renewer does."""
    run_blocking(renewal.renew(hold.backend.driver, [hold.lease]))


@contextmanager
def renewal_answered_late(monkeypatch: pytest.MonkeyPatch, hold: Any) -> Iterator[None]:
    """The server renews `hold` before the block, and the holder hears of it after the block."""
    asked, late = Event(), Event()

    def note_late(*args: Any) -> Any:
        asked.set()
        assert late.wait(PATIENCE)
        return note(*args)

    with monkeypatch.context() as patch:
        patch.setattr(renewal, "note", note_late)
        thread = Thread(target=renew, args=(hold,))
        thread.start()
        try:
            assert asked.wait(PATIENCE)
            yield
        finally:
            late.set()
            thread.join()


def tell_lost(hold: Any) -> None:
    """Run what the product runs when it learns that `hold` is lost."""
    hold.lease.on_lost()


def mark_lost(hold: Any) -> None:
    """The holder knows that `hold` is lost; nobody told its code yet."""
    hold.lease.lose("a test says so")


def desert(hold: Any) -> None:
    """Neither renew nor report `hold` from now on, as if its process were dead."""
    hold.lease.leave(hold)


def run_out(hold: Any) -> None:
    """Desert `hold`; the holder believes that its lease is over."""
    desert(hold)
    hold.lease.deadline = time.monotonic()


def shorten(hold: Any, seconds: float) -> None:
    """The holder believes that its lease ends so many seconds earlier."""
    hold.lease.deadline -= seconds


def stop_renewal(hold: Any) -> bool:
    """Nobody renews `hold` from now on; return whether anybody did."""
    return bool(hold.lease.renewer.discard(hold.lease))


def hear_of_its_end(hold: Any) -> None:
    """A renewal learns from the server that `hold` has ended."""
    note(hold.lease, f"{hold.token} 0".encode(), time.monotonic())


def is_over(hold: Any) -> bool:
    """Whether the holder finds its lease over; it notes the loss then."""
    return bool(hold.lease.is_over())


def is_renewed(hold: Any) -> bool:
    """Whether somebody renews `hold`."""
    return bool(hold.lease.renewer)


def renewed_beside(hold: Any) -> int:
    """How many leases the renewer of `hold` renews in this process."""
    return len(hold.lease.renewer.add.__self__._registry)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """An interrupt comes once, when the next lease has done `verb`."""
    plain = getattr(Lease, verb)

    def interrupted(lease: Lease, *args: Any) -> None:
        plain(lease, *args)
        monkeypatch.setattr(Lease, verb, plain)
        raise InterruptedError

    monkeypatch.setattr(Lease, verb, interrupted)


def replace_renewal(
    monkeypatch: pytest.MonkeyPatch, hold: Any, verb: str, replacement: Callable[..., Any]
) -> None:
    """Have `replacement` do what the renewer of `hold` does at its `verb`."""
    monkeypatch.setattr(hold.lease.renewer, verb, replacement)


def interrupt_the_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise KeyboardInterrupt where an acquire makes its hold."""

    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lease, "begin", interrupted)


class NobodyRenews:
    """Stands for what renews a lease."""

    def add(self, lease: Any) -> None: ...

    def discard(self, lease: Any) -> None: ...

    async def listening(self, run: Any = None) -> Any: ...

    heartbeat = None
