"""The page of the failover worker: start a team, kill whoever works, and see who takes over."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django_redis import get_redis_connection

from demo_project.bank.crews import AtWork, Crews
from demo_project.bank.live.trouble import explains_trouble
from demo_project.bank.live_page import Part, answer, forgotten
from demo_project.bank.processes import ActorFailed
from demo_project.bank.server_url import url_of

from .team import BUSY, JOB_SECONDS, SIGNALS, WORKERS, Team
from .worker import LEASE, MAX_ATTEMPTS

TEAMS = Crews[Team](BUSY)


@never_cache
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """What it is about, and the button that starts a team."""
    return _page(request, None)


@require_POST
@explains_trouble
def start(request: HttpRequest) -> HttpResponse:
    """Start three workers with one job."""
    conn = get_redis_connection("default")
    # The workers would only find out one by one that it does not answer.
    conn.ping()
    try:
        team = TEAMS.start(lambda: Team(url_of(conn)))
    except (AtWork, ActorFailed, OSError) as error:
        messages.error(request, str(error))
        return redirect("failover:start_page")
    return redirect("failover:team", team.name)


@never_cache
@require_GET
@explains_trouble
def show_team(request: HttpRequest, name: str) -> HttpResponse:
    """The workers of a team, and what they said."""
    team = TEAMS.find(name)
    if team is None:
        return forgotten(request, "The site has forgotten this team.", "failover:start_page")
    return _page(request, team)


@require_POST
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
