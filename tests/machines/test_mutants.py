"""The machine can fail: it finds each of these mistakes in the scripts."""

from __future__ import annotations

import pytest
import redis

from redis_locks import scripts
from tests.machines.machine import run
from tests.machines.mutants import MUTANTS, mutated
from tests.machines.scripted import ScriptMachine, clock_stands

pytestmark = pytest.mark.ci

EXACT = "a lease that ends a millisecond early"

QUICK = {
    "one permit too many",
    "a fencing token that comes twice",
    "a hand-off that skips the head of the queue",
    "a hold of a set that takes only the first lock",
    EXACT,
    "a wait given up that keeps the others waiting",
}
"""Found in a second or three, within 500 runs of the machine; others take up to a minute, and some
minutes beside other work.
"""

CASES = [
    pytest.param(mistake, marks=pytest.mark.ci if mistake in QUICK else pytest.mark.long)
    for mistake in MUTANTS
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mistake", CASES)
def test_it_finds(script_machine: type[ScriptMachine], mistake: str) -> None:
    if mistake == EXACT and not clock_stands(script_machine.client):
        pytest.skip("the server's clock goes on while a script runs")
    with mutated(MUTANTS[mistake]), pytest.raises((AssertionError, redis.ResponseError)):
        run(script_machine, 500 if mistake in QUICK else 6000)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_it_is_a_mistake_in_the_scripts_of_today(
    script_machine: type[ScriptMachine], mistake: str
) -> None:
    """The server takes them, so what finds the mistake is the machine."""
    with mutated(MUTANTS[mistake]):
        for script in scripts.ALL:
            script_machine.client.script_load(script.text)
