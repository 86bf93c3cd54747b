"""The tellers' page: open a branch, let a teller crash, and change how many may serve at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from demo_project.bank.crews import Crews
from demo_project.bank.live_page import Part, action, answer, bank, begin, forgotten, page
from redis_locks.admin.screens import Piece

from .branch import BUSY, CUSTOMERS, MORE, PERMITS, SHOWN_SECONDS, TELLERS, Branch
from .teller import LEASE

BRANCHES = Crews[Branch](BUSY)
MOST_EVENTS = 30
CHOICES = range(1, len(TELLERS) + 1)


@page
def show(request: HttpRequest) -> HttpResponse:
    """What it is about, and the button that opens a branch."""
    return _page(request, None)


@action
def open_branch(request: HttpRequest) -> HttpResponse:
    """Open a branch."""

    def branch() -> str:
        return BRANCHES.start(lambda: Branch(bank(), settings.REDIS_URL)).name

    return begin(request, branch, "tellers:start_page", "tellers:branch")


@page
def show_branch(request: HttpRequest, name: str) -> HttpResponse:
    """The tellers of a branch, its permits and its customers."""
    branch = BRANCHES.find(name)
    if branch is None:
        return forgotten(request, "The site has forgotten this branch.", "tellers:start_page")
    return _page(request, branch)


@action
def let_in(request: HttpRequest, name: str) -> HttpResponse:
    """Let more customers come."""
    return _change(request, name, lambda branch: branch.let_in(MORE))


@action
def set_permits(request: HttpRequest, name: str, permits: int) -> HttpResponse:
    """Say how many tellers may serve at once."""
    if permits not in CHOICES:
        raise Http404
    return _change(request, name, lambda branch: branch.set_permits(permits))


@action
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
