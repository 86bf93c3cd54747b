"""Run every fault against both locks and print the counts: `python -m tests.faults --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator

import django
from django.conf import settings

from tests.faults import clock, subjects
from tests.faults.counts import Counts
from tests.faults.scenarios import SCENARIOS, Scenario, run
from tests.faults.soak import soak
from tests.faults.traffic import traffic
from tests.written_tables import write_between

HEAD = (
    "| fault | holds | went wrong | writes fenced off | redis-py's `Lock` |\n"
    "|---|---|---|---|---|\n"
)
WORDS = {
    "overlaps": "overlaps",
    "lost_updates": "lost updates",
    "stuck": "stuck",
    "orphaned": "left behind",
}


def ours(scenario: Scenario, counts: Counts) -> str:
    """Return our part of one row."""
    wrong = sum(counts.failures().values())
    unless = "" if scenario.keeps_promise else ", overlaps not promised"
    return f"| {scenario.fault} | {counts.cycles} | {wrong}{unless} | {counts.fenced_off}"


def theirs(counts: Counts) -> str:
    """Return the last cell: what went wrong with a lock without fencing tokens."""
    found = counts.failures()
    said = [f"{found[name]} {word}" for name, word in WORDS.items() if found.get(name)]
    return ", ".join(said) or "0"


def rows(scenarios: list[Scenario], seconds: float) -> Iterator[tuple[bool, str]]:
    """Yield whether ours had no failure, and a row of the table, for each scenario."""
    for scenario in scenarios:
        if scenario.sets_the_clock and (reason := clock.why_not()):
            sys.stderr.write(f"left out: {scenario.fault}: {reason}\n")
            continue
        counts = run(scenario, subjects.OURS, seconds)
        failures = counts.failures()
        if failures:
            sys.stderr.write(f"{scenario.key}: {failures}: {counts}\n")
        other = "has none"
        if not scenario.ours_only:
            other = theirs(run(scenario, subjects.REDIS_PY, seconds))
        yield not failures, f"{ours(scenario, counts)} | {other} |\n"


def main() -> int:
    """Run, print, and write the table into the docs if asked to; return the exit status."""
    default = float(os.environ.get("REDIS_LOCKS_FAULT_SECONDS", "5"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=default, help="how long each fault lasts")
    parser.add_argument(
        "--write", action="store_true", help="replace the table in docs/explain/evidence.md as well"
    )
    parser.add_argument(
        "--soak",
        type=int,
        metavar="N",
        help="instead, acquire N times by 8 processes under faults at random; prints JSON",
    )
    parser.add_argument(
        "--losing", action="store_true", help="with --soak: the server loses its data as well"
    )
    parser.add_argument(
        "--traffic",
        type=int,
        metavar="N",
        help="instead, acquire N times in one order while all look for deadlocks; prints JSON",
    )
    parser.add_argument("keys", nargs="*", help=f"some of: {' '.join(SCENARIOS)}")
    options = parser.parse_args()
    unknown = set(options.keys) - set(SCENARIOS)
    if unknown:
        parser.error(f"no such fault: {' '.join(sorted(unknown))}")
    if options.losing and options.soak is None:
        parser.error("--losing is a kind of --soak")
    if options.write and options.keys:
        parser.error("--write needs all faults, or the docs would lack the others")
    chosen = [SCENARIOS[key] for key in options.keys or SCENARIOS]
    # Here and not above: forked workers import this module and have settings of their own.
    settings.configure(REDIS_LOCKS={})
    django.setup()
    if options.soak is not None or options.traffic is not None:
        found = (
            traffic(options.traffic)
            if options.soak is None
            else soak(options.soak, losing=options.losing)
        )
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 1 if found["failures"] else 0
    good, table = True, HEAD
    sys.stdout.write(HEAD)
    for passed, row in rows(chosen, options.seconds):
        good &= passed
        table += row
        sys.stdout.write(row)
        sys.stdout.flush()
    if options.write and not good:
        sys.stderr.write("a lock of ours failed: the docs are left as they are\n")
    elif options.write:
        write_between("faults", table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
