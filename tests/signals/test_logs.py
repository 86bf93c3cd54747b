"""What the log says: levels, and lines that cannot mislead."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import Lock, LockLost, inspection
from tests.signals.conftest import IMPATIENT, Heard, deadlocked
from tests.support.world import PATIENCE, World, held, until


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, name: str) -> Any:
    """(level, text) of each line about the locks of this test, at all levels."""
    caplog.set_level(logging.DEBUG, "redis_locks")
    return lambda: [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "redis_locks" and name in record.getMessage()
    ]


def test_each_kind_of_event_has_its_level(world: World, name: str, lines: Any) -> None:
    first = held(world, Lock(name, label="the first"))
    assert world.acquire(Lock(name), wait=0.01) is None
    world.release(first)
    levels, texts = zip(*lines(), strict=True)
    assert ("DEBUG", "INFO", "WARNING", "DEBUG") == levels
    assert all(repr(name) in text for text in texts)
    assert "(the first)" in texts[1]
    assert "did not become free within 0.01 s" in texts[2]
    assert f"fencing token {first.fencing_token}" in texts[0]


def lease_ends(name: str) -> float:
    """When the lease ends, by the server's clock."""
    lock = inspection.lock(name)
    assert lock
    return lock.at + lock.holders[0].lease_left


def test_a_force_released_hold_says_so_in_log_event_and_error(
    world: World, name: str, lines: Any, heard: Heard, listening: Callable[[], bool]
) -> None:
    other = held(world, Lock(f"{name}:other", lease=60))
    ends = lease_ends(f"{name}:other")
    # A process that begins to listen then extends all that it holds: it may find out by that.
    until(lambda: listening() and lease_ends(f"{name}:other") > ends + 0.01)
    hold = held(world, Lock(name, lease=60))
    assert 1 == inspection.force_release(name).ended
    until(lambda: "ERROR" in dict(lines()) and "lost" in heard.kinds)
    with pytest.raises(LockLost, match="was lost: an operator force-released it"):
        world.release(hold)
    world.release(other)
    (text,) = [text for level, text in lines() if level == "ERROR"]  # told once
    assert "an operator force-released it" in text
    assert "an operator force-released it" == heard.only("lost").reason


def test_a_deadlock_is_a_warning_with_all_who_are_in_it(
    name: str, lines: Any, settings: Any
) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    victim = deadlocked(name)
    (text,) = [text for _, text in lines() if text.startswith("Deadlock")]
    assert ("WARNING", text) in lines()
    assert [f"  {wait}" for wait in victim.circle] == text.splitlines()[1:]


def test_a_long_wait_is_told_once_with_waiter_holder_and_lock(
    world: World, name: str, lines: Any, settings: Any
) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    first = held(world, Lock(name, label="the first"))
    waiter = world.start(world.acquire, Lock(name, label="the second"), wait=PATIENCE)
    until(lambda: any("has been waiting" in text for _, text in lines()))
    world.release(first)
    world.release(waiter.result(PATIENCE))
    (text,) = [text for _, text in lines() if "has been waiting" in text]
    waiter, _, holder = text.partition("held by")
    assert "(the second) has been waiting for 0." in waiter
    assert repr(name) in waiter
    assert "(the first)" in holder
    assert ("WARNING", text) in lines()


@pytest.mark.parametrize(
    "entries", [IMPATIENT | {"LOG_LOCK_WAITS": False}, {"DEADLOCK_TIMEOUT": None}]
)
def test_long_waits_are_not_told_if_the_settings_say_so(
    world: World, name: str, lines: Any, settings: Any, entries: dict[str, object]
) -> None:
    settings.REDIS_LOCKS = entries
    first = held(world, Lock(name))
    assert world.start(world.acquire, Lock(name), wait=0.3).result(PATIENCE) is None
    world.release(first)
    assert ["INFO", "WARNING"] == [level for level, _ in lines() if level != "DEBUG"]
