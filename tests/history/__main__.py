"""Run random plans, check their histories, shrink failures: `python -m tests.history --help`."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import django
from django.conf import settings

from tests.history.plan import ANYWHERE, CLUSTER_FAULTS, Plan, cluster_plan_of, plan_of, shrink


def main() -> int:
    """Run, print a line for each seed, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.5, help="begin runs for so long (1.5)")
    parser.add_argument("--first", type=int, default=1, help="begin with this seed (1)")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--plan", type=Path, help="run the plan in this file, as a failure left it")
    parser.add_argument("--times", type=int, default=1, help="with --seed or --plan: how often (1)")
    parser.add_argument(
        "--fail-over", action="store_true", help="let a replica replace the primary in each run"
    )
    parser.add_argument("--cluster", action="store_true", help="run on three masters and replicas")
    parser.add_argument(
        "--faults",
        type=lambda text: tuple(text.split(",")),
        default=CLUSTER_FAULTS,
        help="with --cluster: which may happen, "
        f"of {', '.join((*CLUSTER_FAULTS, *ANYWHERE))} ({','.join(CLUSTER_FAULTS)})",
    )
    parser.add_argument("--no-shrink", action="store_true", help="leave a plan that fails as it is")
    parser.add_argument(
        "--failures", type=Path, default=Path("history-failures"), help="where to keep failures"
    )
    options = parser.parse_args()
    if unknown := set(options.faults).difference(CLUSTER_FAULTS, ANYWHERE):
        parser.error(f"a cluster has no such faults: {', '.join(sorted(unknown))}")
    # Here and not above: forked workers import this module and have settings of their own.
    settings.configure(REDIS_LOCKS={})
    django.setup()
    runs = Runs(options.failures, shrinks=not options.no_shrink)
    for plan in _plans(options):
        runs.add(plan)
    _say(
        f"{runs.count} runs, {runs.holds} holds, {runs.failed} failed; "
        f"told: {dict(runs.told.most_common())}; longest from free to entry {runs.idle:.2f} s"
    )
    return 1 if runs.failed else 0


def _plans(options: argparse.Namespace) -> Iterator[Plan]:
    """Yield what to run: one plan so often, or further seeds until the time is over."""
    if options.plan is not None or options.seed is not None:
        for _ in range(options.times):
            yield (
                _plan(options, options.seed)
                if options.plan is None
                else Plan.from_json(options.plan.read_text())
            )
        return
    end = time.monotonic() + options.minutes * 60
    for seed in itertools.count(options.first):
        if time.monotonic() > end:
            return
        yield _plan(options, seed)


def _plan(options: argparse.Namespace, seed: int) -> Plan:
    if options.cluster:
        return cluster_plan_of(seed, kinds=options.faults)
    return plan_of(seed, fails_over=options.fail_over)


class Runs:
    """The runs so far.

    Args:
        failures: Where to keep the histories and plans of those that failed, by seed.
        shrinks: Whether to look for a smaller plan that fails, too.
    """

    def __init__(self, failures: Path, *, shrinks: bool) -> None:
        self.count = self.holds = self.failed = 0
        self.told = Counter[str]()
        self.idle = 0.0
        self._failures = failures
        self._shrinks = shrinks

    def add(self, plan: Plan) -> None:
        """Run a plan, and say what came of it."""
        from tests.history.running import run

        started, keep = time.monotonic(), self._failures / str(plan.seed)
        result = run(plan, keep)
        self.count += 1
        self.holds += result.holds
        self.told += result.told
        self.idle = max(self.idle, result.idle)
        self.failed += bool(result.violations)
        _say(
            f"seed {plan.seed}: {plan.size}, {result.holds} holds, {result.granted} arrivals, "
            f"{time.monotonic() - started:.0f} s, longest from free to entry {result.idle:.2f} s, "
            f"{len(result.violations)} violations"
        )
        for each in result.violations[:10]:
            _say(f"    {each}")
        if result.violations and self._shrinks:
            small = shrink(plan, partial(_fails, keep / "smaller"))
            (keep / "shrunk.json").write_text(small.to_json())
            _say(f"    shrunk to {small.size}: {keep / 'shrunk.json'}")


def _fails(keep: Path, plan: Plan) -> bool:
    from tests.history.running import run

    return bool(run(plan, keep).violations)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
