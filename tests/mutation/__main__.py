"""Change the core in small ways, and print the changes that no test notices: ``nox -s mutants``.

The tests run once unchanged, and note which lines each of them runs. Then each change is made in a
copy of the checkout. The tests that run its line run there until one fails, the quickest first. A
survivor is a line that no quick test needs: write that test, or delete the line. Some change
nothing that can be seen, such as a pause. No library does this for Lua.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Final

from tests.mutation.changes import Mutant, mutants_of
from tests.mutation.reach import CHOICE, RECORD, Reach

CHECKOUT: Final = Path(__file__).parents[2]
PACKAGE: Final = Path("redis_locks")
OUTPUT: Final = "mutant.txt"
"""What pytest said last."""

ROOMS: Final = ("scripts", "protocol", "locks", "drivers")
"""The rooms that are changed."""

_FOLDERS: Final = (
    "contract internals unit signals scripts django rows tasks faults cluster optimistic run_once"
)
TESTS: Final = tuple(f"tests/{folder}" for folder in _FOLDERS.split())
"""The tests that may notice."""

PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "tests.mutation.reach")
OPTIONS: Final = ("-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "--reruns=1")


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="which mutants")
    parser.add_argument("--count", type=int, default=50, help="how many")
    parser.add_argument("--seconds", type=float, default=150, help="of tests, for each mutant")
    parser.add_argument("--jobs", type=int, default=4, help="how many at once")
    parser.add_argument("--rooms", nargs="+", default=[*ROOMS], choices=[*ROOMS])
    parser.add_argument(
        "--record", type=Path, help="where to keep, or find, the lines of each test"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        unchanged = copy_of_checkout(Path(folder, "unchanged"))
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            trees.put(copy_of_checkout(Path(folder, str(number))))
        record = options.record or Path(folder, "record")
        if not record.exists():
            note_lines(unchanged, record)
        reach = Reach(record)
        mutants = all_mutants(unchanged, options.rooms)
        chosen = random.Random(options.seed).sample(mutants, options.count)

        def try_out(mutant: Mutant) -> str:
            tree = trees.get()
            try:
                return diff_if_it_survives(mutant, tree, reach, options.seconds)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            survivors = list(filter(None, pool.map(try_out, chosen)))
    say(f"seed {options.seed}: {len(survivors)} of {len(chosen)} mutants survived")
    say("\n\n".join(survivors))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def all_mutants(tree: Path, rooms: list[str]) -> list[Mutant]:
    found = []
    for room in rooms:
        for path in sorted((tree / PACKAGE / room).iterdir()):
            if path.suffix in {".py", ".lua"}:
                source = path.read_text(encoding="utf-8")
                found += mutants_of(path.relative_to(tree), source)
    return found


def copy_of_checkout(tree: Path) -> Path:
    shutil.copytree(CHECKOUT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "_build"))
    shutil.copytree(CHECKOUT / ".ci", tree / ".ci")
    return tree


def note_lines(tree: Path, record: Path) -> None:
    """Run the tests unchanged. Those that fail have no part in what follows."""
    record.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(tree), RECORD: str(record.resolve())}
    chosen = ("-m", "not (benchmark or browser or ci or long or timed)", *TESTS)
    subprocess.run([*PYTEST, *OPTIONS, *chosen], cwd=tree, env=environment, check=False)


def diff_if_it_survives(mutant: Mutant, tree: Path, reach: Reach, seconds: float) -> str:
    changed = tree / mutant.path
    source = changed.read_text(encoding="utf-8")
    line = source.count("\n", 0, mutant.start) + 1
    tests = reach.tests_of(mutant.path, line, tree / PACKAGE) or {*reach.seconds}
    changed.write_text(mutant.apply(source), encoding="utf-8")
    began = monotonic()
    killer = failed_of(reach.quickest(tests, seconds), tree, 60 + 4 * seconds)
    changed.write_text(source, encoding="utf-8")
    said = f"killed   {killer}" if killer else f"SURVIVED {len(tests)} tests"
    say(f"{monotonic() - began:4.0f} s  {mutant.path}:{line}  {said}")
    return "" if killer else mutant.diff(source)


def failed_of(tests: list[str], tree: Path, seconds: float) -> str:
    """Return the first of those tests that fails in that tree, or what else ended them early."""
    choice, output = tree / "chosen.txt", tree / OUTPUT
    choice.write_text("\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tree), CHOICE: str(choice)}
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    # What a mutant starts, and forgets, ends with its session.
    with output.open("w") as said:
        running = subprocess.Popen(
            [*PYTEST, *OPTIONS, "-x", "-n0", "--timeout-method=thread", *files],
            cwd=tree,
            env=environment,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        if running.wait(seconds) == 0:
            return ""
    except subprocess.TimeoutExpired:
        return "takes too long"
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    failed = re.search(r"(?m)^(?:FAILED|ERROR) (\S+)", output.read_text(encoding="utf-8"))
    return failed[1] if failed else "ended early"


if __name__ == "__main__":
    main()
