"""The machine can fail: it finds each of these mistakes in the scripts."""

from __future__ import annotations

import pytest
import redis

from tests.machines.machine import run
from tests.machines.mutants import MUTANTS, mutated
from tests.machines.scripted import ScriptMachine, clock_stands

EXACT = "a lease that ends a millisecond early"

QUICK = {
    "one permit too many",
    "a fencing token that comes twice",
    "a hand-off that skips the head of the queue",
    "a hold of a set that takes only the first lock",
    EXACT,
    "a wait given up that keeps the others waiting",
}
"""Found in a second or three; others take up to 40."""

CASES = [
    pytest.param(mistake, marks=pytest.mark.ci if mistake in QUICK else pytest.mark.long)
    for mistake in MUTANTS
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mistake", CASES)
def test_it_finds(script_machine: type[ScriptMachine], mistake: str) -> None:
    if mistake == EXACT and not clock_stands(script_machine.client):
        pytest.skip("the server's clock goes on while a script runs")
    with mutated(MUTANTS[mistake]), pytest.raises((AssertionError, redis.ResponseError)):
        run(script_machine, 500)
