"""The page of the map: sliders, the run under way, its picture, and what to use."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from demo_project.bank.compare.findings import BUSY_PERCENT
from demo_project.bank.live.trouble import explains_trouble
from demo_project.bank.models import Map
from demo_project.bank.recorder import AlreadyRunning

from .advice import answers_of
from .forms import SurveyForm
from .picture import picture_of
from .survey import CONTENDERS, Survey
from .surveyor import MAPS

LATEST_RUNS = 5


@never_cache
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """The sliders, and the map that is being measured, or else the latest one."""
    MAPS.settle_interrupted()
    running = Map.objects.filter(status=Map.Status.RUNNING).first()
    return _page(request, running or Map.objects.filter(status=Map.Status.FINISHED).first())


@never_cache
@require_GET
def show_map(request: HttpRequest, pk: int) -> HttpResponse:
    """One map."""
    MAPS.settle_interrupted()
    return _page(request, get_object_or_404(Map, pk=pk))


@never_cache
@require_GET
def show_picture(request: HttpRequest, pk: int) -> HttpResponse:
    """The picture alone, for the page's script; 204 when the run has ended."""
    # A tab that only follows the picture learns of a process that has died, too.
    MAPS.settle_interrupted()
    run = get_object_or_404(Map, pk=pk)
    if not run.is_running:
        return HttpResponse(status=204)
    return render(request, "bank/map_picture.html", _context(run))


@require_POST
@explains_trouble
def start(request: HttpRequest) -> HttpResponse:
    """Start a run."""
    form = SurveyForm(request.POST)
    if not form.is_valid():
        return _page(request, None, form=form, status=422)
    user = request.user if request.user.is_authenticated else None
    try:
        pk = MAPS.start(form.survey(), user)
    except AlreadyRunning as error:
        messages.error(request, str(error))
        return redirect("map:latest")
    return redirect("map:one", pk)


@require_POST
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    """End a run; what it has measured stays."""
    run = get_object_or_404(Map, pk=pk)
    who = request.user.get_username() or "a visitor"
    if MAPS.cancel(run.pk, who):
        messages.success(request, "The run is being stopped.")
    else:
        messages.warning(request, "That run has ended already.")
    return redirect("map:one", pk)


def _context(run: Map) -> dict[str, Any]:
    survey = Survey.from_dict(run.parameters)
    picture = picture_of(survey, run.measurements.all(), run.versions.get("round_trip_ms", ()))
    left = (len(survey) - run.measured) * survey.estimated_seconds / len(survey)
    return {
        "run": run,
        "survey": survey,
        "picture": picture,
        "seconds_left": left,
        "is_doubtful": run.busy_percent >= BUSY_PERCENT,
    }


def _page(
    request: HttpRequest, run: Map | None, *, form: SurveyForm | None = None, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form or SurveyForm(initial=run.parameters if run else None),
        "runs": Map.objects.all()[:LATEST_RUNS],
        "contenders": CONTENDERS,
        "usual_seconds": Survey().estimated_seconds,
    }
    if run:
        context |= _context(run)
        context["answers"] = answers_of(context["picture"])
    return render(request, "bank/map.html", context, status=status)
