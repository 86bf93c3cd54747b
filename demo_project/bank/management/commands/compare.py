"""``manage.py compare``: measure the transfer strategies from the terminal."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.forms.models import model_to_dict

from demo_project.bank.compare.plan import (
    ACCOUNTS,
    DEFAULT_SECONDS,
    MAX_SECONDS,
    MAX_WORKERS,
    MIN_SECONDS,
    WORKERS,
    Plan,
)
from demo_project.bank.compare.pool import WorkerError
from demo_project.bank.compare.recording import AlreadyRunning, run_comparison
from demo_project.bank.models import Comparison
from demo_project.bank.report import print_table, progress_bar
from demo_project.bank.server import bank_server
from demo_project.bank.strategies import STRATEGIES, available
from redis_locks import LockBackendError


def add_plan_arguments(parser: ArgumentParser, workers: tuple[int, ...], seconds: float) -> None:
    """Options that say what to measure."""
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=seconds,
        help=f"duration of each measurement, {MIN_SECONDS} to {MAX_SECONDS:.0f} (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=_workers,
        nargs="+",
        default=list(workers),
        metavar="N",
        help=f"numbers of worker processes, 1 to {MAX_WORKERS} (default: {' '.join(map(str, workers))})",
    )
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=available())
    parser.add_argument("--accounts", nargs="+", choices=ACCOUNTS, default=list(ACCOUNTS))


def plan_from(options: dict[str, Any]) -> Plan:
    """The plan that the options describe.

    Raises:
        CommandError: The options make no plan.
    """
    try:
        return Plan(
            seconds=options["seconds"],
            workers=tuple(options["workers"]),
            strategies=tuple(options["strategies"]),
            accounts=tuple(options["accounts"]),
        )
    except ValueError as error:
        raise CommandError(str(error)) from error


def run_in_terminal(plan: Plan, *, color: bool) -> Comparison:
    """Run the plan with a progress bar on standard error.

    Raises:
        CommandError: Another comparison is running, a worker failed, or the server cannot be reached.
    """
    try:
        with progress_bar(sys.stderr, len(plan), color=color) as advance:
            return run_comparison(plan, on_measurement=advance)
    except (AlreadyRunning, WorkerError, LockBackendError) as error:
        raise CommandError(str(error)) from error


class Command(BaseCommand):
    """Compare the transfer strategies and record the run."""

    help = (
        "Measure the ways to transfer money against each other, with real worker processes, "
        "on the server that REDIS_URL names or else on one of its own."
    )
    # The system checks need the server that this command starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the plan, and --json."""
        add_plan_arguments(parser, WORKERS, DEFAULT_SECONDS)
        parser.add_argument("--json", action="store_true", help="print the measurements as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run and print."""
        color = not options["no_color"]
        plan = plan_from(options)
        with bank_server():
            comparison = run_in_terminal(plan, color=color)
        measurements = comparison.measurements.all()
        if options["json"]:
            rows = [
                {**model_to_dict(row, exclude=("id", "comparison")), "conserved": row.conserved}
                for row in measurements
            ]
            result = {"versions": comparison.versions, "measurements": rows}
            self.stdout.write(json.dumps(result, indent=2))
        else:
            # Past Django's wrapper, which hides whether this is a terminal's width.
            print_table(getattr(self.stdout, "_out", sys.stdout), measurements, color=color)


def _seconds(text: str) -> float:
    try:
        return Plan(seconds=float(text)).seconds
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _workers(text: str) -> int:
    try:
        return Plan(workers=(int(text),)).workers[0]
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
