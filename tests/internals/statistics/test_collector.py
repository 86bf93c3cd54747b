"""What a process counts until it sends it: how much of it there may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from redis_locks.statistics import collector
from redis_locks.statistics.collector import REST, Collector, Note, Tally
from tests.support.events import Teller, count_hold


@pytest.fixture
def its(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that sends nothing by itself."""
    monkeypatch.setattr(Collector, "_start", lambda _: None)
    with override_settings(REDIS_LOCKS={"STATISTICS": True}):
        yield Collector()


@pytest.fixture
def teller(its: Collector) -> Teller:
    return Teller(its)


def notes_of(its: Collector, server: str = "server") -> list[Any]:
    begun = [each for each in its.begun if each[0].terms.description == server]
    return [*its._tallies[server].notes(begun)]


def counted(tally: Tally, name: str, **kinds: int) -> None:
    for kind, times in kinds.items():
        tally.count(kind, (name,), None, times)  # type: ignore[arg-type]


def test_the_most_contended_names_are_sent_by_name_and_the_others_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "MOST_NAMES_SENT", 2)
    tally = Tally()
    counted(tally, "busy", acquired=9)
    counted(tally, "idle", acquired=1)
    counted(tally, "contended", acquired=1, contended=1)
    counted(tally, "lost", acquired=1, lost=2)
    figures = tally.figures()
    assert {"c contended", "l lost"} <= set(figures)
    assert 10 == figures[f"a {REST}"]
    assert not {"a busy", "a idle"} & set(figures)


def test_names_beyond_all_measure_are_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST_NAMES_KEPT", 3)
    tally = Tally()
    for number in range(100):
        counted(tally, f"lock:{number}", acquired=1)
        tally.note(f"lock:{number}", "acquired", Note(0.0, "acquired", None))
    assert 97 == tally.figures()[f"a {REST}"]
    assert len(tally._counts) == 4
    assert len(list(tally.notes())) == 3


def test_a_signals_handler_may_count_in_the_middle_of_counting(
    its: Collector, teller: Teller
) -> None:
    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            if not interrupts:
                interrupts.append(True)
                teller.count("lost", ("b",), "server", 0.1)
            return super().popleft()

    interrupts: list[bool] = []
    its.pending = Interrupted()
    count_hold(teller, "acquired", "a")
    assert {"a a", "l b"} <= set(its._tallies["server"].figures())


def test_what_an_interrupt_kept_from_being_counted_is_counted_next_time(
    its: Collector, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    its.most = 5
    for name in "abcd":
        count_hold(teller, "acquired", name)
    with monkeypatch.context() as patched:
        patched.setattr(Tally, "count", interrupted)
        with pytest.raises(KeyboardInterrupt):
            count_hold(teller, "acquired", "e")
    its.catch_up()
    # But for the one that was being counted.
    assert 4 == len(its._tallies["server"].figures())


def test_of_what_is_frequent_few_are_noted_and_of_the_rest_more(
    its: Collector, teller: Teller
) -> None:
    for number in range(100):
        assert not count_hold(teller, "acquired", "a"), "its note needs no event"
        assert not count_hold(teller, "released", "a")
        assert count_hold(teller, "lost", "a")
        its.note("server", ("a",), Note(number, "lost", None))
    assert teller.count("contended", ("b",), "server", 0.0), "of another lock nothing is noted yet"
    its.catch_up()
    kept = [(note.kind, note.at) for _, _, note in notes_of(its)]
    lost = [("lost", number) for number in range(80, 100)]
    assert [("acquired", 0.0)] * 5 + lost == sorted(kept)


def test_a_busy_lock_takes_no_notes_from_others(
    its: Collector, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MOST_HOLDS_NOTED", 20)
    its.most = 8  # as many as wait to be counted while its thread runs
    for _ in range(100):
        count_hold(teller, "acquired", "busy")
    for _ in range(3):
        count_hold(teller, "acquired", "idle")
    its.catch_up()
    names = [name for name, _, _ in notes_of(its)]
    assert (5, 3) == (names.count("busy"), names.count("idle"))


def test_what_came_first_of_the_frequent_is_kept(its: Collector, teller: Teller) -> None:
    for since in (1, 3, 5):
        count_hold(teller, "acquired", "a", since=since)
    for at in (2, 4, 6):
        its.note("server", ("a",), Note(at, "contended", None))
    assert [1, 2, 3, 4, 5] == [note.at for _, _, note in notes_of(its)]


def test_each_end_is_noted_where_a_history_is_kept(its: Collector, teller: Teller) -> None:
    with override_settings(REDIS_LOCKS={"STATISTICS": True, "HISTORY": 7}):
        for _ in range(10):
            count_hold(teller, "acquired", "a")
            count_hold(teller, "released", "a", seconds=2.5)
        its.catch_up()
        notes = [note for _, kept, note in notes_of(its) if kept == "ended"]
    assert [("released", 2.5, 2.5, 1)] * 7 == [
        (note.kind, note.at, note.seconds, note.fencing_token) for note in notes
    ]


def test_when_as_many_names_have_notes_as_can_no_other_gets_any(
    its: Collector, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted(server: str = "server") -> set[str]:
        return {name for name, _, _ in notes_of(its, server)}

    def contended(name: str) -> bool:
        wanted = teller.count("contended", (name,), "server", 0.0)
        if wanted:
            its.note("server", (name,), Note(0.0, "contended", None))
        return wanted

    monkeypatch.setattr(collector, "MOST_NAMES_KEPT", 3)
    for name in "abcd":
        count_hold(teller, "acquired", name)
    assert {*"abc"} == noted()
    assert [True, True, True, True, False] == [contended(name) for name in "abcde"]
    count_hold(teller, "acquired", "d", "another server")
    assert {"d"} == noted("another server")
    assert teller.count("timed_out", ("d",), "server", 0.0)
    its.flush()  # which nobody hears, as there is no such server
    count_hold(teller, "acquired", "d")
    assert {"d"} == noted()
