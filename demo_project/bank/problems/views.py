"""The page of the four problems: start an experiment, and look at its two timelines."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from demo_project.bank.background import Found, Show, find_experiment, start_experiment
from demo_project.bank.live_page import Part, action, answer, bank, begin, forgotten, page
from demo_project.bank.processes import Event

from .drawing import WIDTH, timelines_of
from .experiment import FIRST, OPENING, PROBLEMS, SECOND, Course, run_problem


@page
def show(request: HttpRequest) -> HttpResponse:
    """The problems and their buttons."""
    return _page(request)


@action
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Let one of the problems happen."""
    if name not in PROBLEMS:
        raise Http404
    conn = bank()

    def work(_show: Show) -> Found:
        return {"courses": [asdict(course) for course in run_problem(conn, name)]}

    return begin(
        request, lambda: start_experiment(conn, name, work), "problems:all", "problems:run"
    )


@page
def show_run(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One experiment: that it is under way, or its timelines."""
    run = find_experiment(bank(), run_id, *PROBLEMS)
    if run is None:
        return forgotten(
            request,
            "The bank has forgotten this experiment: it remembers one for an hour.",
            "problems:all",
        )
    return _page(
        request,
        over=not run["under_way"],
        problem=PROBLEMS[run["name"]],
        error=run.get("error"),
        under_way=run["under_way"],
        timelines=timelines_of([_course(**found) for found in run.get("courses", ())]),
    )


def _course(events: list[dict[str, Any]], **rest: Any) -> Course:
    return Course(events=tuple(Event(**event) for event in events), **rest)


def _page(request: HttpRequest, *, over: bool = True, **shown: Any) -> HttpResponse:
    return answer(
        request,
        "bank/problems.html",
        [Part("problems_run", shown, {"width": int(WIDTH), **shown})],
        over=over,
        problems=PROBLEMS.values(),
        opening=OPENING,
        first=FIRST,
        second=SECOND,
    )
