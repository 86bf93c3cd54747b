"""What is kept of waits that the log sums up: bounded, and each process's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redis_locks.events import convoys
from redis_locks.events.convoys import Convoys, ConvoySummary
from redis_locks.protocol.lock_events import LockEvent


def waiting(name: str, waited: float = 1.0) -> LockEvent:
    return LockEvent("waiting", (name,), None, "exclusive", None, "a server", 10.0, waited=waited)


def test_locks_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convoys, "MOST_LOCKS", 3)
    written: list[ConvoySummary] = []
    kept = Convoys(written.append, interval=3600)
    assert 4 == sum(kept.admits(waiting(str(number))) for number in range(50))
    assert 4 == len(kept._all())
    kept.flush()
    assert [(46, True)] == [(summary.events, summary.is_rest) for summary in written]
    assert not kept._all()


def test_callers_that_do_not_wait_take_no_place_of_long_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(convoys, "MOST_LOCKS", 3)
    kept = Convoys(lambda _: None, interval=3600)
    for number in range(50):
        kept.admits(replace(waiting(str(number)), kind="contended"))
    assert all(kept.admits(waiting(str(number))) for number in range(3))


def test_locks_whose_interval_is_over_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convoys, "MOST_LOCKS", 3)
    kept = Convoys(lambda _: None, interval=0)
    assert all(kept.admits(waiting(str(number))) for number in range(50))
    assert len(kept._all()) <= 3


def test_the_oldest_wait_is_the_one_that_began_first() -> None:
    written: list[ConvoySummary] = []
    kept = Convoys(written.append, interval=3600)
    for waited in (1.0, 2.0, 9.0, 3.0):
        kept.admits(waiting("a lock", waited))
    kept.flush()
    (summary,) = written
    assert (3, 9.0, 3.0) == (summary.events, summary.oldest.waited, summary.latest.waited)


def test_a_forked_process_writes_nothing_that_its_parent_counted() -> None:
    written: list[ConvoySummary] = []
    kept = Convoys(written.append, interval=3600)
    for _ in range(3):
        kept.admits(waiting("a lock"))
    kept.reset()  # as os.fork() does in the child
    kept.flush()
    assert not written
    assert kept.admits(waiting("a lock"))
