"""What the log says of a crowd: a handful of lines, which count everybody."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import Lock
from tests.signals.conftest import IMPATIENT
from tests.support import events
from tests.support.world import PATIENCE, World, held, until

CROWD = 200

Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture, name: str, settings: Any) -> Warnings:
    """Return the warnings about this test's lock so far."""
    settings.REDIS_LOCKS = IMPATIENT
    caplog.set_level(logging.INFO, "redis_locks")
    return lambda: [
        text
        for record in caplog.records
        if record.levelno == logging.WARNING and name in (text := record.getMessage())
    ]


def counted(texts: list[str]) -> int:
    """Return for how many waits the lines stand."""
    return sum(int((re.match(r"(\d+) more", text) or (0, 1))[1]) for text in texts)


def test_a_crowd_that_waits_in_vain_makes_four_lines(
    world: World, name: str, warnings: Warnings
) -> None:
    hold = held(world, Lock(name, label="the holder"))
    waits = [world.start(world.acquire, Lock(name), wait=2) for _ in range(CROWD)]
    assert {None} == {wait.result(PATIENCE) for wait in waits}
    world.release(hold)
    events.write_summaries()
    in_vain = [text for text in warnings() if re.search("did not become free|ended without", text)]
    long = [text for text in warnings() if text not in in_vain]
    assert (2, CROWD) == (len(in_vain), counted(in_vain))
    assert len(long) <= 2  # a waiter that stands still for long tells only its end
    assert 1 < counted(long) <= CROWD
    assert all("(the holder)" in text for text in warnings())


def test_a_crowd_makes_two_lines_of_info(
    world: World, name: str, warnings: Warnings, caplog: pytest.LogCaptureFixture
) -> None:
    hold = held(world, Lock(name, label="the holder"))
    for _ in range(CROWD):
        assert world.acquire(Lock(name), wait=0) is None
    world.release(hold)
    events.write_summaries()
    infos = [record for record in caplog.records if record.levelno == logging.INFO]
    texts = [text for record in infos if name in (text := record.getMessage())]
    assert (2, CROWD) == (len(texts), counted(texts))
    assert all("(the holder)" in text for text in texts)


def test_a_summary_comes_when_the_interval_ends(
    world: World, name: str, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.sum_up_after(monkeypatch, 0.5)
    hold = held(world, Lock(name, label="the holder"))
    lock = Lock(name, wait=PATIENCE)
    waits = [world.start(world.block, lock, lambda _: None) for _ in range(4)]
    until(lambda: counted(warnings()) == 4)
    world.release(hold)
    for wait in waits:
        wait.result(PATIENCE)
    assert len(warnings()) < 4
    assert "has been waiting for 0." in warnings()[0]
    *_, last = warnings()
    assert re.search(
        r"more waits for lock '.*' have become long; the oldest began \d+\.\d s ago", last
    )


def test_a_second_wait_alone_gets_its_usual_line_later(
    world: World, name: str, warnings: Warnings
) -> None:
    hold = held(world, Lock(name))
    for label in ("the first", "the second"):
        assert world.acquire(Lock(name, label=label), wait=0.01) is None
    assert 1 == len(warnings())
    world.release(hold)
    events.write_summaries()
    assert 2 == len(warnings())
    assert all("did not become free within 0.01 s" in text for text in warnings())


def test_other_locks_have_lines_of_their_own(world: World, name: str, warnings: Warnings) -> None:
    for lock in (Lock(f"{name}:1"), Lock(f"{name}:2"), Lock(f"{name}:2", f"{name}:3")):
        hold = held(world, lock)
        assert world.acquire(lock, wait=0.01) is None
        world.release(hold)
    assert 3 == len(warnings())
