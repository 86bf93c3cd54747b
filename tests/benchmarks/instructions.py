"""Instructions of a client's cycles, by callgrind: ``python -m tests.benchmarks.instructions``.

They are the same on any machine, within 1 % from run to run, where times swing by a third. Work
that is put off counts as well: any thread of the client does. The figures of the last landing are
in `instructions.json`; ``--write`` replaces them. Exits with 1 if a cycle takes `MORE` than that,
or if it passes through more of our files and functions than `PASSES` allows. Wants valgrind.

``--functions`` prints these files and functions, and counts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from math import inf
from pathlib import Path

from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks.cycles import COUNTED, MARK

FIGURES = Path(__file__).with_name("instructions.json")
MORE = 0.03
"""By what part a cycle may grow unseen."""

ABOVE = "atomic, above django"

BUDGETS = {
    "with": 82,
    "uncounted": None,
    "contended": 100,
    "new lock": 92,
    "new name": 102,
    "decorated": 85,
    "decorated, new name": 92,
    "nested": None,
    "shared": None,
    "semaphore": None,
    "run_once": None,
    "receiver": None,
    ABOVE: 140,
    "transfer": 175,
    "transfer, many": 175,
    "transfer, new names": 190,
    "optimistic": 125,
    "optimistic, templates": 185,
    "asyncio": 180,
}
"""What each kind aims at, in thousands; None: nothing said."""

PASSES = {
    # A block has a file of its own, and in async code an exit: record 97.
    "blocking": (12, 37),
    # The answer to a release is awaited by a function of its own: blocking code needs none.
    "async": (14, 57),
    "atomic": (17, 78),
    # Callers have a file of their own: values holds values.
    "force-release": (15, 53),
}
"""How many of our files and functions a warm cycle may pass through; only falls."""

ROOMS = (
    ("with", "new lock", "new name", "decorated", "decorated, new name", "uncounted", "receiver"),
    ("nested", "shared", "semaphore", "run_once"),
    ("django alone", "atomic", "asyncio"),
    ("transfer", "transfer, many", "transfer, new names", "optimistic", "optimistic, templates"),
    ("contended",),
)
"""The kinds that one process counts, one after another."""

CROWD = 3
"""Others who take the lock all the time, so that a client that is much slower under callgrind finds
a queue.
"""


def versions() -> dict[str, str]:
    """Return the versions on which figures depend, without what a patch changes."""
    packages = {name: version(name) for name in ("django", "redis", "hiredis")}
    found = {"python": platform.python_version(), **packages}
    return {name: ".".join(each.split(".")[:2]) for name, each in found.items()}


def counts(url: str, kinds: Sequence[str]) -> dict[str, float]:
    """Return the instructions of a cycle of each kind, in thousands."""
    with tempfile.TemporaryDirectory() as folder, crowd(url, CROWD * ("contended" in kinds)):
        out = Path(folder) / "out"
        tool = (
            "valgrind",
            "--tool=callgrind",
            f"--dump-before={MARK}",
            f"--callgrind-out-file={out}",
        )
        command = [*tool, *child(url, *kinds)]
        env = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise RuntimeError(f"{', '.join(kinds)}: {done.stdout}{done.stderr}")
        # Each mark ends a part: the first before what is counted, the second after it.
        parts = [Path(f"{out}.{2 * number}") for number in range(1, len(kinds) + 1)]
        totals = [re.search(r"^totals: (\d+)", part.read_text(), re.MULTILINE) for part in parts]
        return {
            kind: int(total[1]) / COUNTED / 1000
            for kind, total in zip(kinds, totals, strict=True)
            if total
        }


@contextmanager
def crowd(url: str, size: int) -> Iterator[None]:
    """Let so many processes take the lock all the time."""
    others = [subprocess.Popen(child(url, "crowd")) for _ in range(size)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def child(*arguments: str) -> tuple[str, ...]:
    """Return the command of a client."""
    return (sys.executable, "-m", "tests.benchmarks.cycles", *arguments)


def measured(rooms: Iterable[Sequence[str]] = ROOMS) -> dict[str, float]:
    """Return the figures of the kinds that are counted in these rooms, in thousands."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        def room(kinds: Sequence[str]) -> dict[str, float]:
            with EmbeddedServer(use_environment=False) as server:
                return counts(server.url, kinds)

        found = {kind: figure for part in pool.map(room, rooms) for kind, figure in part.items()}
    if "atomic" in found:
        found[ABOVE] = found["atomic"] - found["django alone"]
    return {kind: round(figure, 1) for kind, figure in found.items() if kind in BUDGETS}


def passed(verb: str) -> dict[str, list[str]]:
    """Return the functions that a warm cycle passes through, by file."""
    with EmbeddedServer(use_environment=False) as server:
        command = [sys.executable, "-m", "tests.architecture.cycles", verb, server.url]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = json.loads(out)
    return found


def longer(*, functions: bool = False) -> list[str]:
    """Print what cycles pass through; return the kinds that pass through more than they may."""
    more = []
    for verb, most in PASSES.items():
        by_file = passed(verb)
        found = (len(by_file), sum(map(len, by_file.values())))
        is_more = found[0] > most[0] or found[1] > most[1]
        print(f"{verb}: {found[0]} files of {most[0]}, {found[1]} functions of {most[1]}")  # noqa: T201
        if functions or is_more:
            lines = [f"    {file}: {', '.join(by_file[file])}" for file in by_file]
            print(*lines, sep="\n")  # noqa: T201
        more += [verb] * is_more
    return more


def grown(found: dict[str, float], landed: dict[str, float]) -> list[str]:
    """Return the kinds that take more than they did."""
    return [kind for kind in found if found[kind] > landed.get(kind, inf) * (1 + MORE)]


def tell(
    found: dict[str, float], landed: dict[str, float], more: list[str], here: dict[str, str]
) -> None:
    """Print a line for each kind."""
    print("Thousand instructions of a cycle, with", ", ".join(f"{k} {v}" for k, v in here.items()))  # noqa: T201
    print(f"{'kind':24}{'now':>8}{'landed':>8}{'aim':>6}")  # noqa: T201
    for kind, budget in BUDGETS.items():
        mark = "  MORE" if kind in more else ""
        print(f"{kind:24}{found[kind]:8.1f}{landed.get(kind, ''):>8}{budget or '':>6}{mark}")  # noqa: T201


def main() -> int:
    """Count, print and compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"put the figures into {FIGURES.name}")
    parser.add_argument("--functions", action="store_true", help="print what cycles pass through")
    options = parser.parse_args()
    long = longer(functions=options.functions)
    if options.functions:
        return bool(long)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed: apt-get install valgrind")
    known = json.loads(FIGURES.read_text())
    found, here = measured(), versions()
    landed = known["figures"] if known["versions"] == here else {}
    if more := grown(found, landed):
        # The renewal thread looks by the clock, so a slow minute of the machine counts: once more.
        again = [room for room in ROOMS if {*room, ABOVE * ("atomic" in room)} & {*more}]
        found |= {kind: min(found[kind], each) for kind, each in measured(again).items()}
        more = grown(found, landed)
    tell(found, landed, more, here)
    if not landed:
        print("The landed figures are of other versions, and not compared:", known["versions"])  # noqa: T201
    if options.write:
        FIGURES.write_text(json.dumps({"versions": here, "figures": found}, indent=2) + "\n")
        return 0
    if more:
        print(f"More than {MORE:.0%} above the last landing: {', '.join(more)}")  # noqa: T201
    if long:
        print(f"More files or functions on the way than PASSES allows: {', '.join(long)}")  # noqa: T201
    return 1 if more or long else 0


if __name__ == "__main__":
    sys.exit(main())
