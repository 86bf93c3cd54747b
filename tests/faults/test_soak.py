"""The long run counts as it goes, and sees memory that grows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.beliefs import Span
from tests.faults.counts import Counts, Diary, Tally
from tests.faults.memory import Samples
from tests.faults.soak import soak


def events_of(chance: random.Random, workers: int, count: int) -> list[tuple[int, list[object]]]:
    """Return what workers wrote down, in order; now and then two hold at once, or a token falls."""
    events: list[tuple[int, list[object]]] = []
    now, fence = 0.0, 0
    for _ in range(count):
        first, second = chance.sample(range(workers), 2)
        fence += chance.choice([1, 1, 1, 1, 1, 1, 1, 1, 0, -2])
        start, now = now, now + 1
        events.append((first, ["in", start, fence]))
        if chance.random() < 0.1:
            events += [
                (second, ["in", start + 0.2, fence + 1]),
                (second, ["leave", start + 0.4, start + 0.4]),
            ]
            events.append((second, ["out", start + 0.5, "lost"]))
            fence += 1
        if chance.random() < 0.1:
            events.append((second, ["error", start + 0.6, "LockBackendError", "no"]))
        events += [
            (first, ["leave", start + 0.8, start + 0.8]),
            (first, ["out", start + 0.9, "released"]),
        ]
    return events


def counted(
    path: Path,
    events: list[tuple[int, list[object]]],
    reads: set[int],
    forgotten: Sequence[Span] = (),
) -> Counts:
    """Return the counts of a tally that reads after so many events each, and at the end."""
    path.mkdir()
    counts = Counts()
    tally = Tally(
        counts,
        longest=1.0,
        allowed=frozenset(),
        promised=True,
        numbered=True,
        forgotten=forgotten,
    )
    logs = [path / f"{number}.log" for number in range(3)]
    diaries = [Diary(log) for log in logs]
    for number, (worker, event) in enumerate(events):
        if number in reads:
            tally.read(diaries)
        with logs[worker].open("a") as log:
            log.write(json.dumps(event) + "\n")
    tally.read(diaries, final=True)
    return counts


def test_what_is_counted_does_not_depend_on_when(tmp_path: Path) -> None:
    for seed in range(5):
        chance = random.Random(seed)
        events = events_of(chance, 3, 300)
        reads = set(chance.sample(range(len(events)), 40))
        whole = counted(tmp_path / f"whole{seed}", events, set())
        assert whole == counted(tmp_path / f"parts{seed}", events, reads)
        failures = whole.failures()
        assert all(failures[name] for name in ("overlaps", "falling", "repeated", "unexpected"))
        assert ["LockBackendError: no"] * 5 == whole.said


def test_a_long_wait_in_vain_and_a_balance_that_changed_are_counted(tmp_path: Path) -> None:
    events: list[tuple[int, list[object]]] = [
        (0, ["no", 1.0, 0.02]), (0, ["no", 2.0, 20.0]), (1, ["torn", 3.0]),
    ]  # fmt: skip
    counts = counted(tmp_path / "logs", events, set())
    assert {"starved": 1, "torn": 1} == counts.failures()


def test_who_began_to_believe_while_the_server_knew_of_no_lease_is_not_counted(
    tmp_path: Path,
) -> None:
    events: list[tuple[int, list[object]]] = []
    for start in (0.0, 10.0, 20.0):
        # The second one began when the server had forgotten the first one, in all but the last round.
        events += [
            (0, ["in", start, start * 10 + 2]), (1, ["in", start + 1, start * 10 + 1]),
            (1, ["leave", start + 2, start + 2]), (0, ["leave", start + 3, start + 3]),
            (2, ["in", start + 4, start * 10 + 1]), (2, ["leave", start + 5, start + 5]),
        ]  # fmt: skip
    strict = counted(tmp_path / "strict", events, set())
    assert (3, 3) == (strict.overlaps, strict.falling)
    forgotten = [Span(start + 0.5, start + 4.5) for start in (0.0, 10.0)]
    for number, reads in enumerate((set(), {4, 8, 13})):
        lenient = counted(tmp_path / f"lenient{number}", events, reads, forgotten)
        assert (1, 1) == (lenient.overlaps, lenient.falling)


@pytest.mark.parametrize(("bytes_each", "flat"), [(0, True), (5_000, True), (50_000, False)])
def test_memory_that_grows_on_is_told_from_a_warm_up(bytes_each: int, *, flat: bool) -> None:
    samples = Samples()
    for number in range(20):
        samples.add(1_000_000 * number)  # imports, caches
    for number in range(80):
        samples.add(20_000_000 + bytes_each * number)
    assert flat == samples.growth().is_flat


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("losing", [False, True])
def test_nothing_goes_wrong_or_grows_in_some_thousand_acquires(*, losing: bool) -> None:
    found = soak(5000, losing=losing)
    assert {} == found["failures"], found
    assert 5000 <= found["acquires"]
    assert found["faults"]
