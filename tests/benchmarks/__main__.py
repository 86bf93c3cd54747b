"""Measure all sections and print what was seen beside what is wanted: `python -m tests.benchmarks --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import django

from tests.benchmarks import contests, quiet, start, transfers
from tests.benchmarks.sections import Place, Round, Section
from tests.written_tables import write_between

SECTIONS: dict[str, Section] = {
    section.key: section for section in (*contests.SECTIONS, transfers.SECTION, start.SECTION)
}
SHOWN = ("alone", "one", "apart", "held", "transfers")
"""The sections in the docs."""

WAYS = {"on": (True,), "off": (False,), "both": (True, False)}
MISSED = 3
"""The exit status when something wanted was not seen."""

SAID = {True: "seen, pinned", False: "seen, not pinned"}


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def measured(
    sections: Sequence[Section], options: argparse.Namespace, *, pinned: bool
) -> tuple[dict[str, list[Round]], str]:
    """Measure one way, print a table of each section, and return all rounds and the tables for the docs."""
    rounds: dict[str, list[Round]] = {}
    text = ""
    with ExitStack() as stack:
        place = Place(stack, options.seconds, pinned=pinned)
        for section in sections:
            rounds[section.key] = section.rounds(place, options.repeat)
            table = "".join(section.table(rounds[section.key]))
            say(table)
            text += table if section.key in SHOWN else ""
    return rounds, text


def main() -> int:
    """Run and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--repeat", type=int, default=5, help="how often all are run in turn")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="these sections")
    parser.add_argument(
        "--pin",
        choices=WAYS,
        default="on",
        help="server on one processor and clients on another; off: where the system puts them",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"put the tables of {', '.join(SHOWN)} into docs/explain/benchmarks.md",
    )
    options = parser.parse_args()
    if options.write and not {*SHOWN} <= {*(options.only or SHOWN)}:
        parser.error(f"--write needs the sections of the docs: {' '.join(SHOWN)}")
    if options.pin != "off" and not quiet.possible():
        parser.error("--pin off: this system has no two processors to pin to")
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.benchmarks.settings"
    django.setup()
    sections = [SECTIONS[key] for key in options.only or SECTIONS]
    ways = {}
    text = ""
    for pinned in WAYS[options.pin]:
        if len(WAYS[options.pin]) > 1:
            heading = f"\nServer and clients {'pinned' if pinned else 'not pinned'}:\n"
            say(heading)
            text += heading
        ways[pinned], tables = measured(sections, options, pinned=pinned)
        text += tables
    rows = [
        wanted.row([rounds[section.key] for rounds in ways.values()])
        for section in sections
        for wanted in section.wanted
    ]
    summary = f"\n| | wanted | {' | '.join(SAID[pinned] for pinned in ways)} |\n|---|---|{'---|' * len(ways)}\n"
    summary += "".join(row for _, row in rows)
    say(summary)
    if options.write:
        write_between("benchmark", text)
    return 0 if all(good for good, _ in rows) else MISSED


if __name__ == "__main__":
    sys.exit(main())
