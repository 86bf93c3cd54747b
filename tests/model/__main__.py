"""Check the protocol's model with spin, and catch all its mutants: `python -m tests.model`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.model.mutants import MUTANTS

MODEL = Path(__file__).with_name("protocol.pml")
SIZES = {
    "2 clients, 2 holds each, 2 faults": (
        "CLIENTS=2", "ROUNDS=2", "FAULTS=2", "TICKS=3", "LATE_ONES=0",
    ),
    "3 clients, 1 hold each, 1 fault": (
        "CLIENTS=3", "ROUNDS=1", "FAULTS=1", "TICKS=3", "EXTENDS=0", "LATE_ONES=0",
    ),
    "2 clients, 2 holds each, 2 faults, a late question": (
        "CLIENTS=2", "ROUNDS=2", "FAULTS=2", "TICKS=1", "EXTENDS=0",
    ),
    "3 clients, 1 hold each, a late question": (
        "CLIENTS=3", "ROUNDS=1", "FAULTS=1", "TICKS=2", "EXTENDS=0",
    ),
}  # fmt: skip
SMALL = ("CLIENTS=2", "ROUNDS=2", "FAULTS=1", "TICKS=3")
DEPTH = 100_000
LONGEST = 240
"""Seconds until one search is given up; the whole check takes about two minutes on two cores."""


class Verdict(NamedTuple):
    """What one search found. `violated` is the assertion that failed, None if none did."""

    states: int
    seconds: float
    violated: str | None


class NotChecked(Exception):
    """The search did not come to an end, so it proves nothing."""


def search(defines: tuple[str, ...], *, optimise: str = "-O2") -> Verdict:
    """Explore every state of the model compiled with `defines`."""
    with tempfile.TemporaryDirectory(prefix="rl-model-") as folder:
        for command in (
            ["spin", "-a", *(f"-D{define}" for define in defines), str(MODEL)],
            [
                "cc", optimise, "-w", "-DSAFETY", "-DXUSAFE", "-DVECTORSZ=512", "-DMEMLIM=3000",
                "-o", "pan", "pan.c",
            ],
        ):  # fmt: skip
            built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if built.returncode or "Error" in built.stdout:
                raise NotChecked(built.stdout + built.stderr)
        ran = subprocess.run(
            ["./pan", "-n", f"-m{DEPTH}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    return _verdict(ran.stdout)


def _verdict(output: str) -> Verdict:
    states = re.search(r"(\d+) states, stored", output)
    errors = re.search(r"errors: (\d+)", output)
    if states is None or errors is None or "max search depth too small" in output:
        raise NotChecked(output)
    seconds = re.search(r"elapsed time ([\d.]+)", output)
    violated = re.search(r"^pan:\d+: (.*)", output, re.MULTILINE)
    if violated is None and (errors[1] != "0" or "Search not completed" in output):
        raise NotChecked(output)
    return Verdict(int(states[1]), float(seconds[1]) if seconds else 0.0, violated and violated[1])


def check_model(size: str) -> tuple[bool, str]:
    """Return whether the model holds, and a line that says so."""
    verdict = search(SIZES[size])
    said = verdict.violated or f"{verdict.states:,} states in {verdict.seconds:.0f} s"
    return verdict.violated is None, f"{size}: {said}"


def check_mutant(name: str) -> tuple[bool, str]:
    """Return whether the mutant is caught by what must catch it, and a line that says so."""
    mutant = MUTANTS[name]
    violated = search((*SMALL, name), optimise="-O1").violated
    caught = violated is not None and any(piece in violated for piece in mutant.caught_by)
    if caught:
        return True, f"caught: {mutant.mistake}"
    found = f"another assertion failed: {violated}" if violated else "it passes"
    return False, f"NOT CAUGHT: {mutant.mistake} ({name}); {found}"


def results() -> Iterator[tuple[bool, str]]:
    """Check everything, two searches at a time."""
    with ThreadPoolExecutor(2) as pool:
        searches = [pool.submit(check_model, size) for size in SIZES]
        searches += [pool.submit(check_mutant, name) for name in MUTANTS]
        for each in searches:
            yield each.result()


def main() -> int:
    """Print one line for each search; return the exit status."""
    missing = [program for program in ("spin", "cc") if shutil.which(program) is None]
    if missing:
        sys.stderr.write(f"missing: {' and '.join(missing)} (on Debian: apt install spin gcc)\n")
        return 1
    good = True
    for passed, line in results():
        good &= passed
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
