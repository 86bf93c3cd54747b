"""The checker refuses each bad history, written by hand, and lets good ones pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.history.checker import Event, read, violations


def event(what: str, at: float, **details: Any) -> Event:
    return {"what": what, "at": at, **details}


def section(
    hold: str,
    asked: float,
    start: float,
    end: float,
    fence: int,
    *,
    lock: str = "x",
    mode: str = "exclusive",
    how: str = "released",
    adopted: bool = False,
) -> list[Event]:
    """One hold from its question to its end."""
    return [
        event("ask", asked, hold=hold, lease=2.0),
        event("in", start, hold=hold, fence=fence, locks={lock: mode}, adopted=adopted),
        event("still", end, hold=hold),
        event("out", end + 0.01, hold=hold, how=how),
    ]


def line(*events: tuple[str, str]) -> list[Event]:
    """What a witness saw of a lock's line, in the server's order; tokens "up..." upgrade."""
    return [
        event(what, at, lock="x", token=token, upgrades=token.startswith("up"))
        for at, (what, token) in enumerate(events)
    ]


def fail_over(at: float, clock: int, *, forgets: bool = True) -> Event:
    """A fail-over, and what fencing tokens were at the moment of the promotion."""
    promoted = {"promoted": at + 0.1, "clock": clock, "forgets": forgets}
    return event("fault", at, kind="fail over", until=at + 0.3, pid=0, **promoted)


def commit(hold: str, at: float) -> list[Event]:
    return [event("commit", at, hold=hold, lock="x"), event("out", at, hold=hold, how="committed")]


GOOD = {
    "one after another": section("a", 1, 1.1, 2, 10) + section("b", 1.2, 2.1, 3, 11),
    "shared beside shared": section("a", 1, 1.1, 3, 10, mode="shared")
    + section("b", 1.2, 1.3, 2, 11, mode="shared"),
    "a shared one is heard of second": section("a", 1, 1.3, 3, 10, mode="shared")
    + section("b", 1, 1.2, 2, 11, mode="shared"),
    "as many as the capacity": section("a", 1, 1.1, 3, 10, mode="permit:2")
    + section("b", 1.2, 1.3, 2, 11, mode="permit:2")
    + section("c", 1.2, 2.1, 3, 12, mode="permit:2"),
    "rows beside each other": section("a", 1, 1.1, 3, 10, mode="no_key")
    + section("b", 1.2, 1.3, 2, 11, mode="key_share"),
    "another lock": section("a", 1, 1.1, 3, 11) + section("b", 1.2, 1.3, 2, 10, lock="y"),
    "adopted with its token": section("a", 1, 1.1, 2, 10, how="detached")
    + section("b", 2.1, 2.2, 3, 10, adopted=True),
    "adopted beside a younger one": section("a", 1, 1.1, 2, 10, mode="permit:2", how="detached")
    + section("b", 1.2, 1.3, 2.15, 11, mode="permit:2")
    + section("c", 1.4, 2.12, 3, 12, mode="permit:2")
    + section("d", 2.1, 2.2, 3, 10, mode="permit:2", adopted=True),
    "asked before, acquired after another": section("a", 1, 1.1, 2, 11, mode="permit:3")
    + section("b", 1.2, 1.3, 2, 12, mode="permit:3")
    + section("c", 1, 1.4, 2, 10, mode="permit:3"),
    "downgraded, then shared": [
        *section("a", 1, 1.1, 2, 10)[:-1],
        event("mode", 2.1, hold="a", fence=10, locks={"x": "shared"}),
        event("still", 3, hold="a"),
        *section("b", 1.2, 2.2, 3, 11, mode="shared"),
    ],
    "an operator ended it": [
        *section("a", 1, 1.1, 3, 10, how="lost"),
        event("force", 1.5, lock="x", until=1.6),
        *section("b", 1.2, 1.7, 3, 20),
    ],
    "lost when its lease was over": section("a", 1, 1.1, 3.5, 10, how="lost"),
    "over before it began, as its process stood still": section("a", 1, 1.1, 3.5, 11)
    + section("b", 0.5, 3.4, 3.4, 10, how="lost"),
    "killed with its hold": section("a", 1, 1.1, 2, 10)[:-1] + section("b", 1.2, 4.1, 5, 11),
    "in the order of arrival": line(
        ("grant", "a"), ("join", "b"), ("join", "c"), ("leave", "b"), ("grant", "b"),
        ("leave", "c"), ("grant", "c"),
    ),
    "granted after leaving and coming back": line(
        ("grant", "a"), ("join", "b"), ("join", "c"), ("leave", "b"), ("join", "b"), ("leave", "c"),
        ("grant", "c"), ("leave", "b"), ("grant", "b"),
    ),
    "an upgrade goes first": line(
        ("join", "b"), ("join", "up"), ("leave", "up"), ("grant", "up"),
    ),
    "nobody knows what happened meanwhile": [
        *line(("join", "b")), event("gap", 1), *line(("grant", "c")),
    ],
    "free while only the dead wait": [
        event("fault", 1, kind="kill", until=1, pid=7),
        event("state", 2, lock="x", held=False, waiting=[7]),
        event("state", 60, lock="x", held=False, waiting=[]),
    ],
    "free while the network was parted": [
        event("state", 2, lock="x", held=False, waiting=[7]),
        event("fault", 1, kind="part", until=59, pid=0),
        event("state", 60, lock="x", held=True, waiting=[]),
    ],
    "the killed keep their holds, and one is on its way": [
        *section("a", 1, 1.1, 2, 10, how="detached"),
        event("fault", 3, kind="kill", until=3, pid=7),
        event("remains", 9, lock="x", holders=[7, 8], waiters=[7]),
    ],
    "what was cut off may leave a hold": [
        event("fault", 3, kind="part", until=4, pid=0),
        event("remains", 9, lock="x", holders=[8], waiters=[]),
    ],
    "counted up by each commit, perhaps by one that died": [
        event("commit", 1, hold="a", lock="x"), event("out", 2, hold="a", how="committed"),
        event("commit", 3, hold="b", lock="x"), event("data", 9, lock="x", value=2),
    ],
    "a fail-over forgot it, and its holder was told": [
        *section("a", 1, 1.1, 3, 10, how="lost"),
        fail_over(1.4, 15),
        *section("b", 1.2, 1.6, 3, 20),
    ],
    "a fail-over forgot a permit": [
        *section("a", 1, 1.1, 3, 10, mode="permit:1"),
        fail_over(1.4, 15),
        *section("b", 1.2, 1.6, 3, 20, mode="permit:1"),
    ],
    "a fail-over forgot it, and it was heard of late": [
        *section("a", 1, 1.7, 3, 10),
        fail_over(1.4, 15),
        *section("b", 1.2, 1.6, 2, 20),
    ],
    "kept over a fail-over for longer than a lease": [
        *section("a", 1, 1.1, 9, 10), fail_over(1.4, 15), *section("b", 1.2, 9.1, 10, 20),
    ],
    "a fail-over forgot a commit": [
        *commit("a", 1), fail_over(2, 15), *commit("b", 3), event("data", 9, lock="x", value=1),
    ],
    "a fail-over forgot no commit": [
        *commit("a", 1), fail_over(2, 15), *commit("b", 3), event("data", 9, lock="x", value=2),
    ],
}  # fmt: skip

BAD = {
    "overlap": section("a", 1, 1.1, 3, 10) + section("b", 1.2, 2.9, 4, 11),
    "overlap: b": section("a", 1, 1.1, 3, 10, mode="shared") + section("b", 1.2, 1.3, 2, 11),
    "overlap: late": [
        *section("a", 1, 1.1, 9, 10),
        event("force", 5, lock="x", until=5.1),
        *section("late", 1.2, 4, 9, 11),
    ],
    "overlap: adopter": section("a", 1, 1.1, 3, 10)
    + section("adopter", 1, 1.5, 3, 10, adopted=True),
    "overlap: row": section("a", 1, 1.1, 3, 10, mode="no_key")
    + section("row", 1, 1.5, 3, 11, mode="shared"),
    "over capacity": section("a", 1, 1.1, 3, 10, mode="permit:2")
    + section("b", 1.2, 1.3, 3, 11, mode="permit:2")
    + section("c", 1.2, 2.1, 3, 12, mode="permit:2"),
    "over capacity: 2 permits of 1": section("a", 1, 1.1, 3, 10, mode="permit:1")
    + section("b", 1.2, 1.3, 3, 11, mode="permit:2"),
    "token backwards": section("a", 1, 1.1, 2, 11) + section("b", 1.2, 2.1, 3, 10),
    "token backwards: twice": section("a", 1, 1.1, 2, 11) + section("twice", 1.2, 2.1, 3, 11),
    "token backwards: sharer": section("a", 1, 1.1, 3, 11, mode="shared")
    + section("sharer", 1.2, 1.3, 2, 10, mode="shared"),
    "one token twice": section("a", 1, 1.1, 3, 11, mode="permit:2")
    + section("b", 1.1, 1.2, 2, 11, mode="permit:2"),
    "token backwards: after": section("a", 1, 1.1, 2, 11)
    + section("after", 1, 2.1, 3, 10, mode="shared"),
    "overtaking": line(
        ("grant", "a"), ("join", "b"), ("join", "c"), ("leave", "c"), ("grant", "c"),
    ),
    "overtaking: b was granted it before c": line(
        ("grant", "a"), ("join", "b"), ("join", "c"), ("leave", "b"), ("join", "b"), ("leave", "b"),
        ("grant", "b"),
    ),
    "overtaking: new": line(("grant", "a"), ("join", "b"), ("grant", "new")),
    "late entry": [
        event("state", 2, lock="x", held=False, waiting=[7]),
        event("state", 60, lock="x", held=True, waiting=[]),
    ],
    "late entry: free for 58.0 s although [8]": [
        event("fault", 1, kind="kill", until=1, pid=7),
        event("state", 2, lock="x", held=False, waiting=[7, 8]),
        event("state", 60, lock="y", held=True, waiting=[]),
    ],
    "lost early": section("a", 1, 1.1, 1.2, 10, how="lost"),
    "miscounted: 1": [
        event("commit", 1, hold="a", lock="x"), event("out", 2, hold="a", how="committed"),
        event("commit", 3, hold="b", lock="x"), event("out", 4, hold="b", how="committed"),
        event("data", 9, lock="x", value=1),
    ],
    "miscounted: 2": [
        event("commit", 1, hold="a", lock="x"), event("out", 2, hold="a", how="committed"),
        event("commit", 3, hold="b", lock="x"), event("out", 4, hold="b", how="lost"),
        event("data", 9, lock="x", value=2),
    ],
    "left behind: [8] hold it": [event("remains", 9, lock="x", holders=[8], waiters=[])],
    "left behind: [8] hold it and []": [
        *section("a", 1, 1.1, 2, 10, how="detached"),
        *section("b", 1, 2.1, 3, 10, adopted=True),
        event("remains", 9, lock="x", holders=[8], waiters=[]),
    ],
    "left behind: [] hold it and [8] wait": [
        event("remains", 9, lock="x", holders=[], waiters=[8]),
    ],
    "left behind": [event("left", 9, text="x is still held")],
    "broken": [event("broken", 9, text="a nested hold has another token")],
    "overlap: replicated": [
        *section("a", 1, 1.1, 3, 10),
        fail_over(1.4, 15, forgets=False),
        *section("replicated", 1.2, 1.6, 3, 20),
    ],
    "overlap: forgotten": [
        *section("a", 1, 1.1, 9, 10), fail_over(1.4, 15), *section("forgotten", 1.2, 1.6, 3, 20),
    ],
    "overlap: before": [
        *section("a", 1, 1.1, 3, 10), *section("before", 1.1, 1.2, 3, 11), fail_over(1.4, 15),
    ],
    "overlap: afterwards": [
        fail_over(1.4, 15), *section("a", 1, 1.6, 3, 20), *section("afterwards", 1, 1.7, 3, 21),
    ],
    "over capacity: 3 permits": [
        *section("a", 1, 1.1, 3, 10, mode="permit:2"),
        fail_over(1.4, 15),
        *(each for n in range(3) for each in section(f"{n}", 1, 1.6, 3, 20 + n, mode="permit:2")),
    ],
    "token backwards: asked": [
        *section("a", 1, 1.1, 1.2, 14), fail_over(1.4, 15), *section("asked", 1.6, 1.7, 3, 13),
    ],
    "lost early: replicated": [
        *section("replicated", 1, 1.1, 1.2, 10, how="lost"), fail_over(1.15, 15, forgets=False),
    ],
    "lost early: later": [fail_over(0.1, 5), *section("later", 1, 1.1, 1.2, 10, how="lost")],
    "miscounted: 3": [
        *commit("a", 1), fail_over(2, 15), *commit("b", 3), event("data", 9, lock="x", value=3),
    ],
    "miscounted: 0": [
        *commit("a", 1), fail_over(2, 15), *commit("b", 3), event("data", 9, lock="x", value=0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", GOOD)
def test_a_history_that_keeps_the_rules_passes(history: str) -> None:
    assert [] == violations(GOOD[history])


@pytest.mark.parametrize("words", BAD)
def test_a_history_that_breaks_a_rule_is_refused_for_that(words: str) -> None:
    (found,) = violations(BAD[words])
    assert words in found


def test_a_line_that_a_killed_process_left_half_written_is_no_event(tmp_path: Path) -> None:
    events = section("a", 1, 1.1, 2, 10)
    text = "".join(json.dumps(each) + "\n" for each in events)
    (tmp_path / "0.jsonl").write_text(text + '{"what": "in", "at"')
    (tmp_path / "1.jsonl").write_text(text)
    assert events * 2 == read(tmp_path)
