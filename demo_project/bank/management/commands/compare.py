"""``manage.py compare``: measure the transfer strategies from the terminal."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import fields
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from demo_project.bank.compare.export import as_json, write_csv
from demo_project.bank.compare.gate import LEAST_ROUNDS
from demo_project.bank.compare.plan import (
    ACCOUNTS,
    DEFAULT_TABLE_SECONDS,
    MAX_ROUNDS,
    MAX_SECONDS,
    MAX_WORKERS,
    MIN_SECONDS,
    Plan,
)
from demo_project.bank.compare.runner import AlreadyRunning, Cancelled, for_this_server, run
from demo_project.bank.endings import check_reader, one_line_endings
from demo_project.bank.models import Comparison
from demo_project.bank.report import report, steps
from demo_project.bank.server import CannotMeasure, bank_server
from demo_project.bank.strategies import STRATEGIES, named_methods
from demo_project.benchmark.pool import WorkerError
from demo_project.benchmark.progress import progress
from redis_locks.management.locks.console import Console


def add_plan_arguments(parser: ArgumentParser, usual: Plan) -> None:
    """Options that say what to measure; without them, it is the `usual` plan."""
    parser.add_argument(
        "--seconds",
        type=float,
        default=usual.seconds,
        help=f"duration of each measurement, {MIN_SECONDS} to {MAX_SECONDS:.0f} (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        default=usual.workers,
        metavar="N",
        help=f"numbers of worker processes, 1 to {MAX_WORKERS} (default: "
        f"{' '.join(map(str, usual.workers))})",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=usual.rounds,
        metavar="N",
        help=f"how often each is measured, in turn, 1 to {MAX_ROUNDS} (default: %(default)s); "
        f"nothing is decided with fewer than {LEAST_ROUNDS}",
    )
    parser.add_argument(
        "--table-seconds",
        type=float,
        default=usual.table_seconds,
        metavar="SECONDS",
        help='for how long each lock of Table 11.2 of "Redis in Action" is measured in each '
        "round; 0 leaves the table out (default: %(default)s)",
    )
    parser.add_argument(
        "--strategies",
        nargs="+",
        choices=STRATEGIES,
        metavar="NAME",
        help=f"methods, by the names and labels of the site's front page: {named_methods()} "
        "(default: all that can run here)",
    )
    parser.add_argument("--accounts", nargs="+", choices=ACCOUNTS, default=list(ACCOUNTS))


def plan_from(options: dict[str, Any]) -> Plan:
    """The plan that the options describe.

    Raises:
        CommandError: The options make no plan.
    """
    given = {field.name: options.get(field.name) for field in fields(Plan)}
    try:
        return Plan.from_dict({name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise CommandError(str(error)) from error


def run_in_terminal(plan: Plan, console: Console) -> Comparison:
    """Run the plan with a progress bar on standard error.

    Raises:
        CommandError: Another comparison is running, it was cancelled from the page, something is in
            its way, or a worker failed.
        LockError: The server cannot be reached.
        BrokenPipeError: Nobody reads the output any more.
    """
    plan = for_this_server(plan)
    try:
        with progress(console, len(plan)) as advance:
            upcoming = steps(plan)
            advance(next(upcoming))

            def measured() -> None:
                advance(next(upcoming, "Done"))
                check_reader()

            return run(plan, on_measurement=measured)
    except (AlreadyRunning, Cancelled, CannotMeasure, WorkerError) as error:
        raise CommandError(str(error)) from error


class Command(BaseCommand):
    """Compare the transfer strategies and record the run."""

    help = (
        "Measure the ways to transfer money against each other, with real worker processes. "
        "The server is the one that REDIS_URL names, or else one of its own."
    )
    # The system checks need the server that this command starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the plan and of the output."""
        add_plan_arguments(parser, Plan(table_seconds=DEFAULT_TABLE_SECONDS))
        output = parser.add_mutually_exclusive_group()
        output.add_argument(
            "--json",
            action="store_true",
            help="print findings, medians and each measurement as JSON",
        )
        output.add_argument("--csv", action="store_true", help="print each measurement as CSV")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run and print."""
        console = Console(self.stdout, self.stderr, self.style, force_color=options["force_color"])
        # Also before there is a server, so that a mistake is told at once.
        plan_from(options)
        with one_line_endings():
            with bank_server():
                comparison = run_in_terminal(plan_from(options), console)
            if options["json"]:
                self.stdout.write(json.dumps(as_json(comparison), indent=2))
            elif options["csv"]:
                write_csv(self.stdout, comparison)
            else:
                console.write(report(comparison, console.style))
