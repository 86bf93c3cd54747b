"""The page of the ledger: start a run with faults, and see what each way made of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from demo_project.bank.background import Found, Show, find_experiment, start_experiment
from demo_project.bank.live_page import Part, action, answer, bank, begin, forgotten, page

from .entries import WAYS, Entry
from .office import CLERKS, KILLS, LOST_EVERY, OPERATIONS, run_ledger
from .reconciliation import Operation, Report

NAME = "ledger"
COLUMNS = 20
CELL = 20


@dataclass(frozen=True)
class Square:
    """An operation in the picture: its place, its name, and how often it is in the ledger."""

    x: int
    y: int
    id: str
    times: int

    @property
    def state(self) -> str:
        """Its class in the stylesheet."""
        return {0: "never", 1: "once"}.get(self.times, "twice")


@page
def show(request: HttpRequest) -> HttpResponse:
    """What it is about, and the button that starts it."""
    return _page(request)


@action
def start(request: HttpRequest) -> HttpResponse:
    """Start a run."""
    conn = bank()

    def work(show_part: Show) -> Found:
        reports = run_ledger(conn, progress=lambda over: show_part({"over": over}))
        return {"reports": [asdict(report) for report in reports]}

    return begin(
        request, lambda: start_experiment(conn, NAME, work), "ledger:start_page", "ledger:run"
    )


@page
def show_run(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One run: how far it has come, or its reports."""
    run = find_experiment(bank(), run_id, NAME)
    if run is None:
        return forgotten(
            request,
            "The bank has forgotten this run: it remembers one for an hour.",
            "ledger:start_page",
        )
    reports = [_report(found) for found in run.get("reports", ())]
    return _page(
        request,
        over=not run["under_way"],
        run=run,
        so_far=[
            {"label": WAYS[way].label, "over": over, "count": count}
            for way, (over, count) in run.get("over", {}).items()
        ],
        sides=[
            {
                "report": report,
                "label": WAYS[report.way].label,
                "squares": list(_squares(report)),
                "height": CELL * -(-len(report.operations) // COLUMNS),
                "accounts": [
                    (name, report.before[name], cents) for name, cents in report.after.items()
                ],
            }
            for report in reports
        ],
    )


def _report(found: dict[str, Any]) -> Report:
    operations = [Operation(**operation) for operation in found.pop("operations")]
    entries = [Entry(**entry) for entry in found.pop("entries")]
    return Report(operations=operations, entries=entries, **found)


def _squares(report: Report) -> Iterator[Square]:
    for number, operation in enumerate(report.operations):
        row, column = divmod(number, COLUMNS)
        yield Square(column * CELL, row * CELL, operation.id, report.times[operation.id])


def _page(request: HttpRequest, *, over: bool = True, **shown: Any) -> HttpResponse:
    return answer(
        request,
        "bank/ledger.html",
        [Part("ledger_run", shown, {"width": COLUMNS * CELL, **shown})],
        over=over,
        operations=OPERATIONS,
        clerks=CLERKS,
        kills=KILLS,
        lost_every=LOST_EVERY,
    )
