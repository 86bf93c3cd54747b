"""Change the core in small ways, one at a time, and print the changes that no test notices: ``nox -s mutants``.

Each change is made in a copy of the checkout. The tests of its room run there until the first
fails. A survivor is a line that no quick test needs: write that test, or delete the line. Some
change nothing that can be seen, such as a pause. No library does this for Lua.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from tests.mutation.changes import Mutant, mutants_of

CHECKOUT: Final = Path(__file__).parents[2]
PACKAGE: Final = Path("redis_locks")
OUTPUT: Final = "mutant.txt"
"""What pytest said last."""

AROUND: Final = ("tests/contract", "tests/internals", "tests/unit")
ROOMS: Final = {
    "scripts": ("tests/scripts", "tests/contract"),
    "protocol": (*AROUND, "tests/signals", "tests/scripts"),
    "locks": (*AROUND, "tests/signals", "tests/django/test_scope.py"),
    "drivers": (*AROUND, "tests/faults"),
}
"""The rooms that are changed, and the tests of each."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="which mutants")
    parser.add_argument("--count", type=int, default=50, help="how many")
    parser.add_argument("--minutes", type=float, default=10, help="for each: who takes longer dies")
    parser.add_argument("--rooms", nargs="+", default=[*ROOMS], choices=[*ROOMS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder, "checkout")
        shutil.copytree(
            CHECKOUT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "_build")
        )
        shutil.copytree(CHECKOUT / ".ci", tree / ".ci")
        tests = {test for room in options.rooms for test in ROOMS[room]}
        if fails_in(tree, sorted(tests), 3 * options.minutes):
            said = (tree / OUTPUT).read_text(encoding="utf-8")
            sys.exit(f"{said}\nA test fails without any change: mend it first")
        chosen = random.Random(options.seed).sample(all_mutants(options.rooms), options.count)
        survivors = [each for each in chosen if survives(each, tree, options.minutes)]
    say(f"seed {options.seed}: {len(survivors)} of {len(chosen)} mutants survived")
    for each in survivors:
        say("\n" + each.diff((CHECKOUT / each.path).read_text(encoding="utf-8")))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def all_mutants(rooms: list[str]) -> list[Mutant]:
    found = []
    for room in rooms:
        for path in sorted((CHECKOUT / PACKAGE / room).iterdir()):
            if path.suffix in {".py", ".lua"}:
                source = path.read_text(encoding="utf-8")
                found += mutants_of(path.relative_to(CHECKOUT), source)
    return found


def survives(mutant: Mutant, tree: Path, minutes: float) -> bool:
    source = (CHECKOUT / mutant.path).read_text(encoding="utf-8")
    changed = tree / mutant.path
    changed.write_text(mutant.apply(source), encoding="utf-8")
    began = monotonic()
    failed = fails_in(tree, ROOMS[mutant.path.parts[1]], minutes)
    changed.write_text(source, encoding="utf-8")
    line = source.count("\n", 0, mutant.start) + 1
    said = "killed" if failed else "SURVIVED"
    say(f"{said:8} {monotonic() - began:4.0f} s  {mutant.path}:{line}")
    return not failed


def fails_in(tree: Path, tests: Sequence[str], minutes: float) -> bool:
    """Whether a test fails in that tree, or they take longer than so many minutes."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n2",
        "--tb=short",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    # What a mutant starts, and forgets, ends with its session.
    with (tree / OUTPUT).open("w") as output:
        running = subprocess.Popen(
            [*command, *tests],
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        return running.wait(minutes * 60) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


if __name__ == "__main__":
    main()
