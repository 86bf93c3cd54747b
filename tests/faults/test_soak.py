"""The long run counts as it goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.beliefs import Span
from tests.faults.counts import Counts, Diary, Tally
from tests.faults.soak import soak


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
        counts, longest=1.0, allowed=frozenset(), promised=True, numbered=True, forgotten=forgotten
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


def test_who_began_to_believe_while_the_server_knew_of_no_lease_is_not_counted(
    tmp_path: Path,
) -> None:
    events: list[tuple[int, list[object]]] = []
    for start in (0.0, 10.0, 20.0):
        # The second one began when the server had forgotten the first one, in all but the last
        # round.
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


@pytest.mark.verdict
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("losing", [False, True])
def test_nothing_goes_wrong_or_grows_in_some_thousand_acquires(*, losing: bool) -> None:
    found = soak(5000, losing=losing)
    assert {} == found["failures"], found
    assert 5000 <= found["acquires"]
    assert found["faults"]
