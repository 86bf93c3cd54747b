"""Whether runs agree on what the page says in words: ``python -m tests.demo.agreement [--runs 3] [options of compare]``.

A run may leave open what another one found to be better, and how often is printed; it may not find
it worse.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demo_project.bank.compare.gate import Verdict
    from demo_project.bank.compare.summaries import Metric, Summaries

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Claim:
    """One run says in words that a strategy is better than another one."""

    metric: Metric
    accounts: str
    workers: int
    better: str
    worse: str

    def __str__(self) -> str:
        where = f"{self.accounts} accounts, {self.workers} workers"
        return f"{self.metric.title}, {where}: {self.better} better than {self.worse}"

    def verdict_of(self, summaries: Summaries) -> Verdict:
        """What another run says of the same two."""
        from demo_project.bank.compare.rankings import compare

        one, other = (
            summaries[self.accounts, self.workers, name] for name in (self.better, self.worse)
        )
        return compare(one, other, self.metric).verdict


def claims_of(summaries: Summaries) -> Iterator[Claim]:
    """Everything that the page says of who is better than whom."""
    from demo_project.bank.compare.findings import crossovers_of, orders_of
    from demo_project.bank.compare.gate import Verdict
    from demo_project.bank.compare.summaries import THROUGHPUT

    for order in orders_of(summaries):
        for better, worse in pairwise(order.places):
            if worse.after and worse.after.verdict is Verdict.BETTER:
                pair = better.summary.strategy, worse.summary.strategy
                yield Claim(order.metric, order.accounts, order.workers, *pair)
    for found in crossovers_of(summaries):
        pair = found.strategy, found.rival
        for workers in found.better:
            yield Claim(THROUGHPUT, found.accounts, workers, *pair)
        for workers in found.worse:
            yield Claim(THROUGHPUT, found.accounts, workers, *pair[::-1])


def held_against_each_other(runs: Sequence[Summaries]) -> Iterator[tuple[Claim, Verdict]]:
    """Each claim of each run with what each other run says of it."""
    for one, other in permutations(runs, 2):
        for claim in dict.fromkeys(claims_of(one)):
            yield claim, claim.verdict_of(other)


def summaries_of(measurements: Iterable[Mapping[str, Any]]) -> Summaries:
    """The rounds of a run that was exported as JSON."""
    from demo_project.bank.compare.summaries import summarise_rounds
    from demo_project.bank.models import Measurement

    rows = ({**row} for row in measurements)
    return summarise_rounds(
        Measurement(**{name: value for name, value in row.items() if name != "conserved"})
        for row in rows
    )


def run_once(options: Sequence[str]) -> Summaries:
    """Run ``manage.py compare``; blocks until it has ended."""
    command = [sys.executable, "manage.py", "compare", "--json", "--table-seconds", "0", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return summaries_of(json.loads(done.stdout)["measurements"])


def main(arguments: Sequence[str]) -> int:
    """Run, print how often the runs agree, and each contradiction; 1 if there is one."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")
    django.setup()
    from demo_project.bank.compare.gate import Verdict

    parser = argparse.ArgumentParser(prog="python -m tests.demo.agreement")
    parser.add_argument("--runs", type=int, default=3)
    options, of_compare = parser.parse_known_args(arguments)
    runs = [run_once(of_compare) for _ in range(options.runs)]
    found = list(held_against_each_other(runs))
    counts = Counter(verdict.value for _, verdict in found)
    print(f"said to be better in one run, in another one: {dict(counts)}")  # noqa: T201 - for whoever runs it
    against = [claim for claim, verdict in found if verdict is Verdict.WORSE]
    for claim in against:
        print(f"contradicted: {claim}")  # noqa: T201 - as above
    return int(bool(against))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
