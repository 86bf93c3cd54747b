"""Random use of locks of all kinds, against a specification of a page: see `specification.py`."""

from __future__ import annotations

import os

import pytest

from tests.machines.library import LibraryMachine
from tests.machines.machine import run
from tests.machines.scripted import ScriptMachine

pytestmark = pytest.mark.ci

LONG = int(os.environ.get("REDIS_LOCKS_EXAMPLES", "300"))
long = pytest.mark.long


@pytest.mark.verdict
@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [20, pytest.param(5 * LONG, marks=long)])
def test_scripts_behave_as_specified(script_machine: type[ScriptMachine], examples: int) -> None:
    run(script_machine, examples)


@pytest.mark.verdict
@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [5, pytest.param(LONG, marks=long)])
def test_the_library_behaves_as_specified_whatever_replies_are_lost(
    library_machine: type[LibraryMachine], examples: int
) -> None:
    run(library_machine, examples)
