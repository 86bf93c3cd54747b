"""The page of the tellers: open a branch, let a teller crash, and change how many may serve at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.contrib import messages
from django.contrib.admin.utils import quote
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
from redis_locks.admin.screens import Piece

from .branch import BUSY, CUSTOMERS, MORE, PERMITS, SHOWN_SECONDS, TELLERS, Branch
from .teller import LEASE

BRANCHES = Crews[Branch](BUSY)
MOST_EVENTS = 30
CHOICES = range(1, len(TELLERS) + 1)


@never_cache
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """What it is about, and the button that opens a branch."""
    return _page(request, None)


@require_POST
@explains_trouble
def open_branch(request: HttpRequest) -> HttpResponse:
    """Open a branch."""
    conn = get_redis_connection("default")
    try:
        branch = BRANCHES.start(lambda: Branch(conn, url_of(conn)))
    except (AtWork, ActorFailed, OSError) as error:
        messages.error(request, str(error))
        return redirect("tellers:start_page")
    return redirect("tellers:branch", branch.name)


@never_cache
@require_GET
@explains_trouble
def show_branch(request: HttpRequest, name: str) -> HttpResponse:
    """The tellers of a branch, its permits and its customers."""
    branch = BRANCHES.find(name)
    if branch is None:
        return forgotten(request, "The site has forgotten this branch.", "tellers:start_page")
    return _page(request, branch)


@require_POST
@explains_trouble
def let_in(request: HttpRequest, name: str) -> HttpResponse:
    """Let more customers come."""
    return _change(request, name, lambda branch: branch.let_in(MORE))


@require_POST
@explains_trouble
def set_permits(request: HttpRequest, name: str, permits: int) -> HttpResponse:
    """Say how many tellers may serve at once."""
    if permits not in CHOICES:
        raise Http404
    return _change(request, name, lambda branch: branch.set_permits(permits))


@require_POST
@explains_trouble
def crash(request: HttpRequest, name: str, who: str) -> HttpResponse:
    """Let a teller crash."""
    if who not in TELLERS:
        raise Http404
    return _change(request, name, lambda branch: branch.kill(who))


def _change(request: HttpRequest, name: str, do: Callable[[Branch], None]) -> HttpResponse:
    branch = BRANCHES.find(name)
    if branch is None:
        raise Http404
    if branch.is_at_work:
        do(branch)
    else:
        messages.warning(request, "The branch is closed.")
    return redirect(f"{reverse('tellers:branch', args=[name])}#branch")


def _page(request: HttpRequest, branch: Branch | None) -> HttpResponse:
    open_now = branch is not None and branch.is_at_work
    parts = [_part(branch, open_now=open_now)]
    return answer(
        request,
        "bank/tellers.html",
        parts,
        over=not open_now,
        open_now=open_now,
        tellers=len(TELLERS),
        customers=CUSTOMERS,
        permits=PERMITS,
        lease=LEASE,
    )


def _part(branch: Branch | None, *, open_now: bool) -> Piece:
    if branch is None:
        return Part("tellers_branch", None, {"branch": None})
    look, said = branch.look(), branch.events()
    strips = branch.strips()
    shown = {
        "branch": branch,
        "look": look,
        "open_now": open_now,
        "rows": [(teller, strips[teller.who]) for teller in look.tellers],
        "choices": CHOICES,
        "more": MORE,
        "events": said[: -MOST_EVENTS - 1 : -1],
        "span": SHOWN_SECONDS,
        "began": f"{time.time() - SHOWN_SECONDS:.3f}",
        "path": quote(branch.name),
    }
    return Part("tellers_branch", (branch.name, look, open_now, len(branch.all_events)), shown)
