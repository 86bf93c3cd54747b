"""Measure all sections, and print figures beside goals: `python -m tests.benchmarks --help`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from contextlib import ExitStack

import django

from tests.benchmarks import contests, processors, transfers
from tests.benchmarks.sections import MACHINES, Place, Rounds, Section
from tests.written_tables import write_between

SECTIONS: dict[str, Section] = {
    section.key: section for section in (*contests.SECTIONS, transfers.SECTION)
}

MISSED = 3
"""The exit status when something wanted was not seen."""


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def chosen() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run")
    parser.add_argument(
        "--repeat",
        type=int,
        default=5,
        choices=range(1, 11),
        metavar="ROUNDS",
        help="how often all are run in turn, 10 at most",
    )
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=[*SECTIONS], help="these sections"
    )
    parser.add_argument(
        "--machine",
        nargs="+",
        choices=MACHINES,
        default=[*MACHINES],
        help="busy: a process spins on each of both processors; both in turn unless chosen",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the tables into docs/explain/benchmarks.md and README",
    )
    options = parser.parse_args()
    if not processors.possible():
        parser.error("this system cannot pin processes to two processors: measure on Linux")
    if options.write and [options.only, options.machine] != [[*SECTIONS], [*MACHINES]]:
        parser.error("--write needs all sections and machines: leave out --only and --machine")
    if options.write and contests.PYTHON_REDIS_LOCK not in SECTIONS["one"].subjects:
        parser.error("--write needs the other libraries: install the dependency group `benchmarks`")
    return options


def behind(measured: dict[str, Rounds]) -> str:
    """Return the list of where others are ahead of ours, and why."""
    found = [line for key, rounds in measured.items() for line in SECTIONS[key].behind(rounds)]
    if not found:
        return f"\nIn no table {contests.REDIS_PY} or packed WATCH is ahead.\n"
    return "\n".join((f"\n{contests.REDIS_PY}, or packed WATCH, is ahead here:\n", "".join(found)))


def main() -> int:
    """Run and print; return the exit status."""
    options = chosen()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.benchmarks.settings"
    django.setup()
    measured: dict[str, Rounds] = {}
    tables = (
        f"\nPython {platform.python_version()}, {os.cpu_count()} processors, "
        f"median of {options.repeat} rounds of {options.seconds:g} s\n"
    )
    say(tables)
    with ExitStack() as stack:
        place = Place(stack, options.seconds)
        for key in options.only:
            measured[key] = SECTIONS[key].rounds(place, options.repeat, options.machine)
            table = "".join(SECTIONS[key].table(measured[key]))
            say(table)
            tables += table
    where = behind(measured)
    say(where)
    rows = [
        wanted.row(rounds) for key, rounds in measured.items() for wanted in SECTIONS[key].wanted
    ]
    columns = len(options.machine)
    say(f"\n| | wanted | {' | '.join(options.machine)} |\n|---|---|{'---|' * columns}\n")
    say("".join(row for _, row in rows))
    if options.write:
        write_between("benchmark", tables + where)
        write_between("benchmark of 10", "".join(contests.readme(measured)))
    return 0 if all(good for good, _ in rows) else MISSED


if __name__ == "__main__":
    sys.exit(main())
