"""Who blocks whom, and `manage.py locks blocking`."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import pytest

from redis_locks import Lock
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo, blockers
from redis_locks.inspection.blockers import Node
from tests.django.command_calls import Terminal, run
from tests.support.parties import MINUTES, ask, held, stand_in_a_chain, waited_for


def holder(unit: str, pid: int = 1) -> HolderInfo:
    return HolderInfo(f"{unit}.1", 1, 2.0, 3.0, "exclusive", "web-1", pid, unit, "x")


def waiter(unit: str, pid: int = 1) -> WaiterInfo:
    return WaiterInfo(f"{unit}.2", 1.0, "exclusive", "web-1", pid, unit, "x")


def lock(name: str, held_by: str, *waited_for_by: str) -> LockInfo:
    holders = tuple(map(holder, held_by.split()))
    waiters = tuple(map(waiter, waited_for_by))
    return LockInfo(name, "exclusive", holders, waiters, len(waiters))


def drawn(node: Node) -> str:
    """A tree as text: a(b c(d))."""
    text = node.who.unit + "!" * node.deadlocked + "+" * node.repeated
    return text + (f"({' '.join(map(drawn, node.blocks))})" if node.blocks else "")


@pytest.mark.parametrize(
    ("locks", "trees"),
    [
        ([], []),
        ([lock("l", "a")], []),
        ([lock("l", "", "b")], []),
        ([lock("l", "a", "b", "c")], ["a(b c)"]),
        ([lock("l", "a", "b", "c"), lock("m", "c", "d")], ["a(b c(d))"]),
        ([lock("m", "c", "d"), lock("l", "a", "b", "c")], ["a(b c(d))"]),
        ([lock("l", "a", "b"), lock("m", "a", "c")], ["a(b c)"]),
        ([lock("l", "a", "b"), lock("m", "c", "d")], ["a(b)", "c(d)"]),
        # Two hold a shared lock that one waits for.
        ([lock("l", "a b", "c"), lock("m", "c", "d")], ["a(c(d))", "b(c+)"]),
        # A deadlock of two, and one that waits for them.
        ([lock("l", "a", "b"), lock("m", "b", "a", "c")], ["a(b(a!+ c))"]),
        ([lock("l", "a", "a")], ["a(a!+)"]),
    ],
)
def test_trees_join_those_who_wait_below_those_they_wait_for(
    locks: list[LockInfo], trees: list[str]
) -> None:
    assert trees == [drawn(tree) for tree in blockers.trees(blockers.blocked(locks))]


def in_modes(found: LockInfo, held_in: str, *waited_in: str) -> LockInfo:
    """The lock with these modes of its holders and of each waiter."""
    holders = tuple(replace(each, mode=held_in) for each in found.holders)
    pairs = zip(found.waiters, waited_in, strict=True)
    return replace(found, holders=holders, waiters=tuple(replace(w, mode=m) for w, m in pairs))


PERMIT = "permit:2"


@pytest.mark.parametrize(
    ("locks", "tree"),
    [
        # Another holder's permit comes free.
        ([in_modes(lock("l", "a b", "c"), PERMIT, PERMIT), lock("m", "c", "b")], "a(c(b(c+)))"),
        # The only one.
        ([in_modes(lock("l", "a", "c"), "permit:1", "permit:1"), lock("m", "c", "a")], "a(c(a!+))"),
        # Its permit would come free, but not for one behind another that waits for ever.
        (
            [
                in_modes(lock("l", "a b", "c", "d"), PERMIT, "exclusive", PERMIT),
                lock("m", "d", "b"),
            ],
            "a(c d(b(c d!+)))",
        ),
        # Both share it, and each waits until the other does not.
        (
            [in_modes(lock("l", "a b", "a", "b"), "shared", "upgrade", "upgrade")],
            "a(a+ b(a!+ b!+))",
        ),
        # It shares it with one that waits for it, who could go on but for the one between them.
        (
            [
                in_modes(lock("l", "a", "b", "c"), "shared", "exclusive", "shared"),
                lock("m", "c", "a"),
            ],
            "a(b c(a!+))",
        ),
        ([in_modes(lock("l", "a", "c"), "shared", "shared"), lock("m", "c", "a")], "a(c(a+))"),
    ],
)
def test_a_circle_of_waits_is_a_deadlock_if_surely_none_of_them_can_go_on(
    locks: list[LockInfo], tree: str
) -> None:
    assert tree in [drawn(root) for root in blockers.trees(blockers.blocked(locks))]


@pytest.mark.parametrize("length", [40, 41, 1500])
def test_a_long_chain_goes_on_in_trees_of_their_own(length: int) -> None:
    chain = [lock(f"l{number}", f"s{number}", f"s{number + 1}") for number in range(length)]
    roots = blockers.trees(blockers.blocked(chain))
    walks = [list(walked(root)) for root in roots]
    assert max(map(len, walks)) <= 1 + blockers.DEEPEST
    assert [*range(length)] == [
        int(node.lock[1:]) for walk in walks for node in walk if node.lock is not None
    ]
    # Each begins where the one before ends, and says so.
    for earlier, later in pairwise(walks):
        assert earlier[-1].cut
        assert earlier[-1].who.session == later[0].who.session
    assert not walks[-1][-1].cut


def walked(node: Node) -> Iterator[Node]:
    """The nodes of a chain."""
    while True:
        yield node
        if not node.blocks:
            return
        (node,) = node.blocks


def test_threads_of_one_name_are_sessions_of_their_own() -> None:
    first, second = (replace(waiter("same"), token=f"{session}.1") for session in "ab")
    held = LockInfo("l", "exclusive", (holder("other"),), (first, second), 2)
    (tree,) = blockers.trees(blockers.blocked([held]))
    assert ["a", "b"] == [node.who.session for node in tree.blocks]
    assert not any(node.repeated for node in tree.blocks)


@pytest.fixture
def contended(own_prefix: None) -> Iterator[None]:
    """A lock with a queue of 12, whose last waiter holds what one more waits for."""
    with ExitStack() as stack:
        stack.enter_context(held("first"))
        for place in range(1, 12):
            stack.enter_context(waited_for("first", f"w{place}"))
        stack.enter_context(waited_for("first", "last", holding="second"))
        stack.enter_context(waited_for("second", "below"))
        yield


def test_a_real_queue_is_shown_as_a_tree(contended: None) -> None:
    lines = run("blocking")[0].splitlines()
    me = f"pid {os.getpid()} thread"
    assert 14 == len(lines)
    assert f"{me} MainThread (" in lines[0]
    assert lines[0].endswith(" blocks 12")
    assert lines[1].startswith("├─ ")
    assert f"{me} thread of w1 (w1)" in lines[1]
    assert lines[1].endswith("s for first")
    assert lines[12].startswith("└─ ")
    assert lines[13].startswith("   └─ ")
    assert f"{me} thread of below (" in lines[13]


def test_a_hundred_that_wait_for_each_other_are_all_shown(own_prefix: None) -> None:
    stand_in_a_chain(100)
    lines = run("blocking")[0].splitlines()
    assert 100 == sum(" waits " in line for line in lines)
    assert 2 == sum(line.endswith(", and more below in a tree of its own") for line in lines)
    assert 103 == len(lines)


def test_however_long_the_names_are_each_line_says_who_waits_and_for_how_long(
    own_prefix: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, second = "x" * 87, "y" * 87
    ask([(first, "a.1"), (second, "b.1")], wait=0)
    ask([(second, "a.2"), (first, "b.2")], wait=MINUTES)
    lines = run("blocking", out=Terminal())[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert ["web-1", "web-1", "web-1"] == re.findall(
        r"^\W*(web-1) ", "\n".join(lines), re.MULTILINE
    )
    said = " ".join(re.sub("[│├└─]", " ", "\n".join(lines)).split())
    assert 2 == len(re.findall(r" waits \d+\.\ds for [xy]+…[xy]+", said))
    assert said.endswith(": DEADLOCK with the above")


def test_a_long_line_is_broken_between_words(
    own_prefix: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ledger = "nightly:ledger:settlement:2026-11-28"
    ask([(ledger, "a.1")], wait=0)
    ask([(ledger, "b.2"), (ledger, "c.2")], wait=MINUTES)
    first, *lines = run("blocking", out=Terminal())[0].splitlines()
    assert first == "web-1 pid 4711 thread MainThread (many) blocks 2"
    assert [
        "├─ web-1 pid 4711 thread MainThread (many) waits",
        "└─ web-1 pid 4711 thread MainThread (many) waits",
    ] == [line.partition(" waits")[0] + " waits" for line in lines[::2]]
    assert [f"│     {ledger}", f"      {ledger}"] == lines[1::2]


def test_programs_get_a_line_for_each_waiter_and_holder(contended: None) -> None:
    rows = list(csv.DictReader(run("blocking", "--format", "csv")[0].splitlines()))
    assert 13 == len(rows)
    assert {"first", "second"} == {row["lock"] for row in rows}
    assert "thread thread of last" == next(r["holder_unit"] for r in rows if r["lock"] == "second")
    assert 13 == len(json.loads(run("blocking", "--json")[0]))


def test_nobody_waiting_is_said_on_stderr(own_prefix: None, name: str) -> None:
    with Lock(name):
        assert ("", "Nobody waits for a lock that somebody holds.\n") == run("blocking")
