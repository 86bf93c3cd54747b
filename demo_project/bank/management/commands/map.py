"""``manage.py map``: measure which way is best where, from the terminal."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from textwrap import fill, wrap
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from demo_project.bank.compare.summaries import ROUND_TRIPS, THROUGHPUT
from demo_project.bank.endings import one_line_endings
from demo_project.bank.map.advice import answers_of
from demo_project.bank.map.picture import Grid, Picture, picture_of
from demo_project.bank.map.survey import (
    FEWEST_ACCOUNTS,
    MAX_LATENCY_MS,
    MAX_WORK_MS,
    MAX_WORKERS,
    MOST_ACCOUNTS,
    Survey,
)
from demo_project.bank.map.surveyor import MAPS
from demo_project.bank.models import Map
from demo_project.bank.processes import ActorFailed
from demo_project.bank.recorder import AlreadyRunning, Cancelled, CannotMeasure
from demo_project.bank.report import counting_bar
from demo_project.bank.server import bank_server
from redis_locks.benchmark.pool import WorkerError

LINE = 80
USUAL = Survey()


class Command(BaseCommand):
    """Measure a map and record it."""

    help = (
        "Measure locks against optimistic transactions over a grid of accounts, work inside and network latency. "
        "The server is the one that REDIS_URL names, or else one of its own."
    )
    # The system checks need the server that this command starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How far the grid goes."""
        for name, kind, least, most, text in (
            ("workers", int, 1, MAX_WORKERS, "worker processes"),
            ("accounts", int, FEWEST_ACCOUNTS, MOST_ACCOUNTS, "the most accounts"),
            ("latency-ms", float, 0, MAX_LATENCY_MS, "the longest round trip, in ms"),
            ("work-ms", float, 0, MAX_WORK_MS, "the longest work inside, in ms"),
        ):
            parser.add_argument(
                f"--{name}",
                type=kind,
                default=getattr(USUAL, name.replace("-", "_")),
                metavar="N",
                help=f"{text}, {least:g} to {most:g} (default: %(default)s)",
            )
        parser.add_argument(
            "--seconds",
            type=float,
            default=USUAL.seconds,
            help="duration of each measurement (default: %(default)s)",
        )
        parser.add_argument(
            "--rounds",
            type=int,
            default=USUAL.rounds,
            metavar="N",
            help="how often each is measured, in turn (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="print each cell as JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run and print."""
        names = ("workers", "accounts", "latency_ms", "work_ms", "seconds", "rounds")
        try:
            survey = Survey(**{name: options[name] for name in names})
        except ValueError as error:
            raise CommandError(str(error)) from error
        with one_line_endings():
            with bank_server():
                run = _measure(survey, color=not options["no_color"])
                picture = picture_of(survey, run.measurements.all(), run.versions["round_trip_ms"])
                lines = _json(picture) if options["json"] else _report(picture)
            for line in lines:
                self.stdout.write(line)


def _measure(survey: Survey, *, color: bool) -> Map:
    try:
        with counting_bar(sys.stderr, len(survey), "Measuring", color=color) as advance:
            return MAPS.run(survey, on_measurement=advance)
    except (ActorFailed, AlreadyRunning, Cancelled, CannotMeasure, OSError, WorkerError) as error:
        raise CommandError(str(error)) from error


def _report(picture: Picture) -> list[str]:
    lines = [line for grid in picture.grids for line in _table(grid, picture.survey)]
    lines += [fill(picture.verdict, LINE), ""]
    for answer in answers_of(picture):
        lines += [
            answer.question,
            fill(answer.general, LINE, initial_indent="  ", subsequent_indent="  "),
        ]
        if answer.figures:
            lines.append(
                fill(answer.figures, LINE, initial_indent="  > ", subsequent_indent="  > ")
            )
    return lines


def _table(grid: Grid, survey: Survey) -> Iterator[str]:
    yield (
        f"{survey.workers} workers, a round trip of {grid.round_trip_ms:g} ms: "
        "the method ahead, and how many times"
    )
    rows = [
        ["work", *(f"{count:,} accounts" for count in grid.accounts)],
        *([f"{work:g} ms", *(cell.text for cell in cells)] for work, cells in grid.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    yield from wrap(grid.round_trips, LINE)
    yield ""


def _json(picture: Picture) -> list[str]:
    cells = [
        {
            "latency_ms": cell.latency_ms,
            "work_ms": cell.work_ms,
            "accounts": cell.accounts,
            "ahead": cell.side.value,
            "method": cell.winner and cell.winner.strategy,
            "margin": cell.margin,
            "noise_percent": cell.noise,
            **{
                metric.field: {
                    summary.strategy: list(summary.values(metric).values())
                    for summary in cell.ranking
                }
                for metric in (THROUGHPUT, ROUND_TRIPS)
            },
        }
        for cell in picture.cells
    ]
    return [json.dumps({"survey": picture.survey.as_dict(), "cells": cells}, indent=2)]
