"""No crowd makes a script slow: neither holders, nor waiters, nor the dead, nor what is listed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks.crowds import (
    CROWDS,
    EVERY,
    Cost,
    Crowd,
    first_server,
    full_name,
    measured,
    slowness,
)

MOST_US = 5_000
"""No call takes longer, unless the machine is a slow one: see `slowness`."""

TRIES = 5


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with first_server() as started:
        yield started


def too_much(
    few: dict[str, Cost], many: dict[str, Cost], factor: float, most: float = MOST_US
) -> dict[str, object]:
    """Return the scripts that cost too much beside many, with their costs beside few and many."""
    return {
        script: (few[script], cost)
        for script, cost in many.items()
        if cost.least > factor * few[script].least or cost.most > most
    }


def best(before: dict[str, Cost], now: dict[str, Cost]) -> dict[str, Cost]:
    """Return the best cost of each script so far."""
    return {script: cost.best(before.get(script, cost)) for script, cost in now.items()}


@pytest.mark.ci
@pytest.mark.timed
@pytest.mark.timeout(300)
@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.label)
def test_a_call_costs_the_same_beside_few_and_beside_many(
    server: EmbeddedServer, crowd: Crowd
) -> None:
    wrong: dict[str, object] = {}
    few: dict[str, Cost] = {}
    many: dict[str, Cost] = {}
    # The machine may be busy with something else, so the best of all tries counts.
    for _ in range(TRIES):
        few = best(few, measured(server, crowd, crowd.few, rounds=1))
        many = best(many, measured(server, crowd, 10_000, rounds=1))
        wrong = too_much(few, many, factor=2, most=MOST_US * slowness(server))
        if not wrong:
            break
    assert {} == wrong


WITHOUT_A_CROWD = {"alerts"}
"""Its cost depends on the rules that fire, and these are in a project's settings."""


def test_every_script_is_measured_beside_a_crowd(server: EmbeddedServer) -> None:
    found = {
        script
        for crowd in CROWDS
        for script in measured(server, crowd._replace(times=1), 10, rounds=1)
    }
    assert {full_name(script) for script in EVERY} - WITHOUT_A_CROWD == found
