"""The page of the four problems: start an experiment, and look at its two timelines."""

from __future__ import annotations

import uuid
from typing import Any

import redis
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django_redis import get_redis_connection

from demo_project.bank.background import Busy
from demo_project.bank.live.trouble import explains_trouble
from demo_project.bank.live_page import Part, answer, forgotten

from .drawing import WIDTH, timelines_of
from .experiment import FIRST, OPENING, PROBLEMS, SECOND
from .lost_replies import LOST_REPLIES
from .runs import find_run, start_problem

SHOWN = {**PROBLEMS, LOST_REPLIES.name: LOST_REPLIES}


@never_cache
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """The problems and their buttons."""
    return _page(request)


@require_POST
@explains_trouble
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Let one of the problems happen."""
    if name not in SHOWN:
        raise Http404
    try:
        run_id = start_problem(_bank(), name)
    except Busy as error:
        messages.error(request, str(error))
        return redirect("problems:all")
    return redirect("problems:run", run_id)


@never_cache
@require_GET
@explains_trouble
def show_run(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One experiment: that it is under way, or its timelines."""
    run = find_run(_bank(), run_id)
    if run is None:
        return forgotten(
            request,
            "The bank has forgotten this experiment: it remembers one for an hour.",
            "problems:all",
        )
    return _page(
        request,
        over=not run["under_way"],
        problem=SHOWN[run["name"]],
        counts=run["counts"],
        error=run.get("error"),
        under_way=run["under_way"],
        timelines=timelines_of(run["courses"]) if run["courses"] else None,
    )


def _page(request: HttpRequest, *, over: bool = True, **shown: Any) -> HttpResponse:
    return answer(
        request,
        "bank/problems.html",
        [Part("problems_run", shown, {"width": int(WIDTH), **shown})],
        over=over,
        problems=SHOWN.values(),
        opening=OPENING,
        first=FIRST,
        second=SECOND,
    )


def _bank() -> redis.Redis:
    found: redis.Redis = get_redis_connection("default")
    return found
