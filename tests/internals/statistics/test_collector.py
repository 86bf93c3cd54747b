"""What a process counts until it sends it: how much of it there may be."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from django.test import override_settings

from redis_locks.statistics import collector
from redis_locks.statistics.collector import BENCHMARK, REST, Collector, Note, Tally
from tests.support.events import Teller


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
        tally.note(f"lock:{number}", Note(0.0, "acquired", None))
    assert 97 == tally.figures()[f"a {REST}"]
    assert len(tally._counts) == 4
    assert len(list(tally.notes())) == 3


def test_a_signals_handler_may_count_in_the_middle_of_counting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            if not interrupts:
                interrupts.append(True)
                teller.count("lost", ("b",), "server", 0.1)
            return super().popleft()

    interrupts: list[bool] = []
    monkeypatch.setattr(Collector, "_start", lambda _: None)
    collector = Collector()
    teller = Teller(collector)
    collector.pending = Interrupted()
    with override_settings(REDIS_LOCKS={"STATISTICS": True}):
        teller.count("acquired", ("a",), "server", 0.0)
    assert {"a a", "l b"} <= set(collector._tallies["server"].figures())


def test_what_an_interrupt_kept_from_being_counted_is_counted_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Collector, "_start", lambda _: None)
    collector = Collector()
    collector.most = 5
    teller = Teller(collector)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with override_settings(REDIS_LOCKS={"STATISTICS": True}):
        for name in "abcd":
            teller.count("acquired", (name,), "server", 0.0)
        with monkeypatch.context() as patched:
            patched.setattr(Tally, "count", interrupted)
            with pytest.raises(KeyboardInterrupt):
                teller.count("acquired", ("e",), "server", 0.0)
        collector.catch_up()
    # But for the one that was being counted.
    assert 4 == len(collector._tallies["server"].figures())


def test_a_set_counts_for_each_of_its_locks() -> None:
    tally = Tally()
    tally.count("released", ("a", "b"), 5)
    assert {figure.split(" ")[1] for figure in tally.figures()} == {"a", "b"}


def test_of_what_is_frequent_few_are_to_be_noted_and_of_the_rest_more() -> None:
    collector = Collector()
    teller = Teller(collector)
    wanted = 0
    with override_settings(REDIS_LOCKS={"STATISTICS": True}):
        for number in range(100):
            if teller.count("acquired", ("a",), "server", 0.0):
                wanted += 1
                collector.note("server", ("a",), Note(number, "acquired", None))
            assert teller.count("lost", ("a",), "server", 0.0)
            collector.note("server", ("a",), Note(number, "lost", None))
        assert not teller.count("released", ("a",), "server", 0.0)
        assert teller.count("contended", ("b",), "server", 0.0), (
            "of another lock nothing is noted yet"
        )
    assert 5 == wanted
    kept = [(note.kind, note.at) for _, _, note in collector._tallies["server"].notes()]
    assert [("acquired", number) for number in range(5)] == kept[:5]
    assert [("lost", number) for number in range(80, 100)] == kept[5:]


def test_nothing_is_sent_of_the_locks_of_a_benchmark() -> None:
    tally = Tally()
    for name in (f"{BENCHMARK}:redis_locks", "account:17"):
        tally.count("acquired", (name,), None)
        tally.note(name, Note(0.0, "acquired", "somebody"))
    assert {"a account:17": 1} == tally.figures()
    assert ["account:17"] == [name for name, _, _ in tally.notes()]


def test_when_as_many_names_have_notes_as_can_no_event_is_made_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "MOST_NAMES_KEPT", 3)
    monkeypatch.setattr(Collector, "_start", lambda _: None)
    its = Collector()
    teller = Teller(its)
    with override_settings(REDIS_LOCKS={"STATISTICS": True}):
        for name in ("a", "b", "c"):
            assert teller.count("acquired", (name,), "server", 0.0)
            its.note("server", (name,), Note(0.0, "acquired", None))
        assert not teller.count("acquired", ("d",), "server", 0.0)
        assert teller.count("acquired", ("d",), "another server", 0.0)
        assert teller.count("lost", ("d",), "server", 0.0)
        its.flush()  # which nobody hears, as there is no such server
        assert teller.count("acquired", ("d",), "server", 0.0)
