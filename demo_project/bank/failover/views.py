"""The page of the failover worker: start a team, kill whoever works, and see who takes over."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from demo_project.bank.crews import Crews
from demo_project.bank.live_page import Part, action, answer, bank, begin, forgotten, page

from .team import BUSY, JOB_SECONDS, SIGNALS, WORKERS, Team
from .worker import LEASE, MAX_ATTEMPTS

TEAMS = Crews[Team](BUSY)


@page
def show(request: HttpRequest) -> HttpResponse:
    """What it is about, and the button that starts a team."""
    return _page(request, None)


@action
def start(request: HttpRequest) -> HttpResponse:
    """Start three workers with one job."""
    # The workers would only find out one by one that it does not answer.
    bank().ping()

    def team() -> str:
        return TEAMS.start(lambda: Team(settings.REDIS_URL)).name

    return begin(request, team, "failover:start_page", "failover:team")


@page
def show_team(request: HttpRequest, name: str) -> HttpResponse:
    """The workers of a team, and what they said."""
    team = TEAMS.find(name)
    if team is None:
        return forgotten(request, "The site has forgotten this team.", "failover:start_page")
    return _page(request, team)


@action
def signal(request: HttpRequest, name: str, who: str, what: str) -> HttpResponse:
    """Kill a worker, or make its attempt fail."""
    team = TEAMS.find(name)
    if team is None or who not in WORKERS or what not in SIGNALS:
        raise Http404
    if team.is_at_work:
        team.do(what, who)
    else:
        messages.warning(request, "The workers have ended.")
    return redirect(f"{reverse('failover:team', args=[name])}#job")


def _page(request: HttpRequest, team: Team | None) -> HttpResponse:
    members = team.workers() if team else []
    states = {member.state for member in members}
    at_work = team is not None and team.is_at_work
    shown = {
        "team": team,
        # Its worker was killed, and the lease has not ended.
        "is_orphaned": "dead" in states and "working" not in states,
        "max_attempts": MAX_ATTEMPTS,
        "status": team.status() if team else None,
        "members": members,
        "events": team.events() if team else [],
    }
    # With the name instead of the team, which is the same object as long as it lives.
    facts = (team and team.name, *list(shown.values())[1:])
    return answer(
        request,
        "bank/failover.html",
        [Part("failover_team", facts, shown)],
        over=not at_work,
        at_work=at_work,
        seconds=JOB_SECONDS,
        lease=LEASE,
    )
