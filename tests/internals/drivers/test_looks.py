"""How often a waiter speaks up, minute after minute; the clock is set forward, not waited for."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.protocol import acquire
from tests.elsewhere import in_thread
from tests.internals.acquire.stage import recorded
from tests.support.world import granted

MINUTES = 10


@pytest.fixture
def driver(redis_server: object, monkeypatch: pytest.MonkeyPatch) -> BlockingDriver:
    """Of waiters that hear nothing, and whose time to listen is over at once."""
    ahead = 0.0

    async def hear_nothing(_: BlockingLink, token: str, timeout: float) -> None:
        nonlocal ahead
        ahead += timeout

    monkeypatch.setattr(BlockingLink, "receive", hear_nothing)
    monkeypatch.setattr(acquire, "monotonic", lambda: monotonic() + ahead)
    found = backend_for(None).driver
    assert isinstance(found, BlockingDriver)
    return found


@pytest.mark.parametrize(
    ("holds", "more", "lease", "looks", "commands"),
    [(False, 0, 10, 0, 10), (True, 0, 10, 24, 48), (False, 1, 10, 0, 10), (False, 0, 2, 0, 30)],
    ids=["holds nothing", "holds something", "wants several", "has a short lease"],
)
def test_a_waiter_sends_a_known_number_of_commands_a_minute(
    driver: BlockingDriver,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    holds: bool,
    more: int,
    lease: float,
    looks: float,
    commands: int,
) -> None:
    names = [f"{name}:{number}" for number in range(1 + more)]
    trips, exchange = 0, BlockingLink.round_trip

    async def counted(link: BlockingLink, *args: Any) -> Any:
        nonlocal trips
        trips += 1
        return await exchange(link, *args)

    with ExitStack() as stack:
        stack.callback(granted(in_thread(Lock(names[0], lease=3600).acquire)).release)
        if holds:
            stack.enter_context(Lock(f"{name}:held", lease=3600))
        monkeypatch.setattr(BlockingLink, "round_trip", counted)
        with recorded(driver) as ran:
            assert Lock(*names, lease=lease).acquire(wait=MINUTES * 60) is None
    sent = Counter(script.name for script in ran)
    assert {"acquire", "give_up"} <= set(sent)
    # The first time, the server may not know the script that looks; 2 to 3 s lie between two looks.
    assert looks == pytest.approx(sent["detect"] / MINUTES, abs=0.25 if not looks else 1)
    assert commands == pytest.approx(sent.total() / MINUTES, abs=0.5 if not looks else 2)
    # Each look travels with a question; a few other trips are those of renewal.
    assert trips <= sent["acquire"] + sent["give_up"] + 15
