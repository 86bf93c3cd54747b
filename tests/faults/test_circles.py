"""Circles of waits across processes, threads and tasks, through all that one can wait for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pytest

from redis_locks import DeadlockDetected
from redis_locks.testing.server import EmbeddedServer
from tests.faults import circles
from tests.faults.circles import Hosts, Outcome, Party, Want
from tests.support.timings import LOOK_AGAIN
from tests.support.world import Observer, until

SHARED = "shared"


def ring(kinds: Sequence[tuple[int, str]]) -> list[Party]:
    """Each has a lock, and wants that of the next one."""
    count = len(kinds)
    return [
        Party(host, kind, Want((str(place),)), Want((str((place + 1) % count),)))
        for place, (host, kind) in enumerate(kinds)
    ]


MIXED = ring([(0, "main"), (1, "thread"), (1, "task")])

# Nobody has what the second one is in the way of: it only stands before the third in the queue of x.
PLACE = [
    Party(0, "main", Want(("x",), SHARED), Want(("y",))),
    Party(1, "task", None, Want(("x",))),
    Party(1, "thread", Want(("y",)), Want(("x",), SHARED)),
]

# The first upgrades, and so stands before the third, who could share x with all that hold it.
UPGRADE = [
    Party(0, "main", Want(("x",), SHARED), Want(upgrade=True)),
    Party(1, "task", Want(("x",), SHARED), Want(("y",))),
    Party(1, "thread", Want(("y",)), Want(("x",), SHARED)),
]

# Both permits are out; who has one waits for a lock of the set, who has the other one for a set.
SET_AND_PERMITS = [
    Party(0, "main", Want(("a", "b")), Want(("s",), capacity=2)),
    Party(1, "task", Want(("s",), capacity=2), Want(("a",))),
    Party(1, "thread", Want(("s",), capacity=2), Want(("c", "b"))),
]


def renamed(want: Want, name: str) -> Want:
    return want._replace(names=tuple(f"{name}:{each}" for each in want.names))


def meet(
    hosts: Hosts, parties: Sequence[Party], name: str, server_side: Observer
) -> tuple[list[Party], list[Outcome], float]:
    """Return the parties, how it ended for them, and since when the last one was seen to wait."""
    own = [
        party._replace(has=party.has and renamed(party.has, name), wants=renamed(party.wants, name))
        for party in parties
    ]
    standing: dict[str, int] = {}
    seen = 0.0

    def queued(number: int) -> None:
        nonlocal seen
        stand(own[number])
        seen = time.monotonic()
        if number == len(own) - 2 and any(party.has and party.has.capacity for party in own):
            # Of several circles through permits the one that is seen first counts: let the last one see it.
            until(lambda: len(server_side.noted(name)) > number)

    def stand(party: Party) -> None:
        wants = (party.wants.upgrade and party.has) or party.wants
        for each in wants.names:
            standing[each] = standing.get(each, 0) + 1
            until(lambda each=each: standing[each] <= server_side.waiters(each))  # type: ignore[misc]

    return own, hosts.meet(own, queued), seen


def one_gives_way(
    hosts: Hosts, parties: Sequence[Party], name: str, server_side: Observer
) -> DeadlockDetected:
    """Let them meet; return the error of the only victim, who must be the one that waited last."""
    own, outcomes, seen = meet(hosts, parties, name, server_side)
    assert [None] * (len(parties) - 1) == [outcome.error for outcome in outcomes[:-1]]
    _, ended, error = outcomes[-1]
    assert isinstance(error, DeadlockDetected)
    sys.stdout.write(f"{len(parties)} parties: found in {ended - seen:.3f} s\n")
    # At its first look, which is due after DEADLOCK_TIMEOUT, and not at one of the others' next looks.
    assert ended - seen < 1.0 + LOOK_AGAIN * 0.9
    assert error.circle[0].names == own[-1].wants.names
    assert f"pid {hosts.pids[own[-1].host]} " in error.circle[0].who
    lines = {f"{circles.__file__}:{line}" for line in circles.LINES}
    assert {wait.where for wait in error.circle} <= lines
    left = {each: server_side.left_of(each) for party in own for each in party.wants.names}
    assert set() == set().union(*left.values())
    return error


def modes(error: DeadlockDetected) -> list[str]:
    return [wait.mode for wait in error.circle]


@pytest.mark.ci
def test_a_circle_of_a_process_a_thread_and_a_task_is_found_in_time(
    redis_server: EmbeddedServer, name: str, server_side: Observer
) -> None:
    with Hosts(2, CONNECTION=redis_server.url) as hosts:
        error = one_gives_way(hosts, MIXED, name, server_side)
    units = [wait.who for wait in error.circle]
    assert ["exclusive"] * 3 == modes(error)
    assert [(f"{name}:{each}",) for each in "012"] == sorted(wait.names for wait in error.circle)
    assert ["task", "thread MainThread", "thread"] == [
        next(kind for kind in ("task", "thread MainThread", "thread") if kind in unit)
        for unit in units
    ]
    assert f"pid {hosts.pids[0]}" in units[1]


@pytest.mark.parametrize(
    ("parties", "expected"),
    [
        (PLACE, ["shared", "exclusive", "exclusive"]),
        (UPGRADE, ["shared", "upgrade", "exclusive"]),
        (SET_AND_PERMITS, ["exclusive", "permit"]),
    ],
    ids=["place", "upgrade", "set-and-permits"],
)
@pytest.mark.long
def test_a_circle_is_found_whatever_closes_it(
    redis_server: EmbeddedServer,
    name: str,
    server_side: Observer,
    parties: list[Party],
    expected: list[str],
) -> None:
    with Hosts(2, CONNECTION=redis_server.url) as hosts:
        error = one_gives_way(hosts, parties, name, server_side)
    assert expected == modes(error)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("kind", ["main", "thread", "task"])
def test_a_circle_across_processes_is_found_in_time(
    redis_server: EmbeddedServer, name: str, server_side: Observer, size: int, kind: str
) -> None:
    with Hosts(size, CONNECTION=redis_server.url) as hosts:
        parties = ring([(number, kind) for number in range(size)])
        error = one_gives_way(hosts, parties, name, server_side)
    assert size == len({wait.who for wait in error.circle})
    assert {f"{name}:{number}" for number in range(size)} == {
        each for wait in error.circle for each in wait.names
    }
