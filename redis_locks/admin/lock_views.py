"""What the admin of locks answers: a live list, a page for each lock, force-release and cancel."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from redis_locks.admin.actions import (
    CANCELLING,
    ENDINGS,
    RELEASING,
    Ending,
    Party,
    end_logged,
    existing,
)
from redis_locks.admin.bulk import MOST_PARTIES, BulkSelection, chosen, select
from redis_locks.admin.forms import EndForm, FilterForm
from redis_locks.admin.page_content import LockView, list_screen, lock_screen, page_number
from redis_locks.admin.paths import ServerPages, from_path
from redis_locks.admin.screens import Screen
from redis_locks.admin.script_texts import script_texts
from redis_locks.admin.server_strip import away, contended_now, shared_survey, strip
from redis_locks.admin.statistics import stats_context
from redis_locks.admin.table_rows import GroupRow, circle_row, mark_of
from redis_locks.admin.waits import waits_screen
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.filters import ORDERS, TROUBLE, Filter, groups, search
from redis_locks.inspection.localized_times import duration
from redis_locks.inspection.snapshots import free_lock
from redis_locks.inspection.story import runs
from redis_locks.inspection.survey import MOST
from redis_locks.inspection.termination import successor
from redis_locks.inspection.time_limit import require_answer
from redis_locks.models import Lock
from redis_locks.statistics.usual import recent
from redis_locks.values.text import printable

TEMPLATES = "admin/redis_locks/lock"
MOST_GROUPS = 200
LOCKS_A_PAGE = 100
"""How many locks a page of the list has."""
LOGGED_A_PAGE = 100
"""How many entries a page of the operators' log has."""


class LockViews:
    """What one request to the admin of locks is answered with."""

    def __init__(
        self,
        model_admin: admin.ModelAdmin[Lock],
        request: HttpRequest,
        may_end: Callable[[HttpRequest, Ending], bool],
    ) -> None:
        self._model_admin = model_admin
        self._request = request
        self._may_end = may_end

    @cached_property
    def _pages(self) -> ServerPages:
        """The pages of the server that the address names."""
        return ServerPages.of(self._request, self._model_admin.admin_site)

    def _may(self, ending: Ending) -> bool:
        return self._may_end(self._request, ending)

    def _check_view_permission(self) -> None:
        if not self._model_admin.has_view_permission(self._request):
            raise PermissionDenied

    def lock_list(self, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Return the list, with its filters."""
        form, pages = FilterForm(self._request.GET), self._pages
        context = {
            "title": pgettext("locks", "Locks"),
            "filter": form.filter(),
            "order": _order(self._request),
            "live_url": pages.path("data"),
            "stats_url": pages.url("stats"),
        }
        return self._page("list", context | (extra_context or {}), lambda: self._list().context)

    def data(self) -> HttpResponse:
        """Return the news of the list, as JSON."""
        return self._as_data(lambda: self._list().answer(self._request))

    def badge(self) -> HttpResponse:
        """Return how many locks have waiters, for the admin's index, as JSON.

        The answer is 204 if no server says so at once.
        """
        self._check_view_permission()
        servers = contended_now()
        if not any(servers):
            return HttpResponse(status=204)
        locks = sum(len(queues.contended) for queues in servers if queues is not None)
        text = ngettext("%(counter)s lock with waiters", "%(counter)s locks with waiters", locks)
        whole = all(queues is not None and queues.whole for queues in servers)
        # A plus says that not all queues were looked at.
        count = f"{number_format(locks)}{'' if whole else '+'}"
        return JsonResponse({"locks": locks, "text": text % {"counter": count}})

    def stats(self) -> HttpResponse:
        """Return how often locks were acquired and contended, and how long waits and holds were."""
        get, pages = self._request.GET, self._pages
        context = {
            "title": _("Lock statistics"),
            "original": pgettext("locks", "Statistics"),
            "live_url": pages.path("waits"),
            "list_url": pages.url("changelist"),
        }
        return self._page(
            "stats", context, lambda: stats_context(get, pages) | self._waits().context
        )

    def waits(self) -> HttpResponse:
        """Return the news of the waits in progress, as JSON."""
        return self._as_data(lambda: self._waits().answer(self._request))

    def deadlocks(self) -> HttpResponse:
        """Return the deadlocks of the last hour: sessions, locks and lines of code."""
        pages = self._pages
        context = {
            "title": _("Deadlocks of the last hour"),
            "original": pgettext("locks", "Deadlocks"),
            "list_url": pages.url("changelist"),
        }

        def shown() -> dict[str, Any]:
            circles = recent(using=pages.using).circles
            return {"circles": [circle_row(circle, pages) for circle in circles]}

        return self._page("deadlocks", context, shown)

    def lock(self, object_id: str, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Return one lock: who holds it, who waits for it, and who blocks whom."""
        name = from_path(object_id)
        context = self._lock_context(name) | (extra_context or {})
        return self._page("detail", context, lambda: self._lock(name).context)

    def live(self, object_id: str) -> HttpResponse:
        """Return the news of one lock, as JSON."""
        return self._as_data(lambda: self._lock(from_path(object_id)).answer(self._request))

    def operators_log(self, object_id: str, extra_context: dict[str, Any] | None) -> HttpResponse:
        """Return what operators did to a lock, latest first; it outlives the lock."""
        self._check_view_permission()
        name = from_path(object_id)
        entries = LogEntry.objects.filter(
            object_id=name, content_type=get_content_type_for_model(Lock)
        ).select_related("user")
        every = Paginator(entries.order_by("-action_time", "-pk"), LOGGED_A_PAGE)
        shown = every.get_page(page_number(self._request.GET.get("p", "")))
        context = self._lock_context(name) | {"page": shown} | (extra_context or {})
        return self._respond("operators_log", context)

    def release(self, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the holds that were shown by POST."""
        return self._end(from_path(object_id), RELEASING)

    def cancel(self, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the waits that were shown by POST."""
        return self._end(from_path(object_id), CANCELLING)

    def _end(self, name: str, ending: Ending) -> HttpResponse:
        if not self._may(ending):
            raise PermissionDenied
        request, pages = self._request, self._pages
        form = EndForm(request.POST or None)
        asked = request.POST if request.method == "POST" else request.GET
        marks = asked.getlist("party")
        try:
            require_answer(pages.using)
            if request.method == "POST" and form.is_valid():
                reason = form.cleaned_data["reason"]
                ending.tell(request, self._end_logged(ending, name, reason, marks))
                return redirect(pages.url("change", name))
            lock = existing(name, pages.using)
        except LockBackendError as error:
            return self._not_asked(error, pages.url("change", name))
        # Django refuses a form with more than 1,000 fields.
        parties = ending.choose(lock, marks)[:MOST_PARTIES] if lock else []
        if lock is None or not parties:
            messages.warning(request, str(ending.nothing))
            return redirect(pages.url("change", name))
        context = self._lock_context(name) | {
            "form": form,
            "marked": [mark_of(party.token) for party in parties],
            "parties": [ending.row(party, lock.at) for party in parties],
            "waiting": lock.waiting,
            "others": lock.holding - len(parties),
            "fits": successor(lock, [party.token for party in parties]) is not None,
            "next": runs(lock.waiters[0]) if lock.waiters else "",
            "next_waited": duration(lock.waiters[0].waited) if lock.waiters else "",
        }
        return self._respond(ending.view, context)

    def bulk(self) -> HttpResponse:
        """Show what a filter finds, and ask for a reason, by GET; end what was ticked by POST."""
        endings = {each.view: each for each in ENDINGS if self._may(each)}
        if not endings:
            raise PermissionDenied
        request, pages = self._request, self._pages
        form, matching = EndForm(request.POST or None), FilterForm(request.GET).filter()
        back = f"{pages.path('changelist')}?{request.GET.urlencode()}"
        if matching == Filter():
            messages.warning(request, _("Filter the list first, by host or by name."))
            return redirect(back)
        ticked = request.POST.getlist("end")
        try:
            require_answer(pages.using)
            if request.method == "POST" and form.is_valid() and ticked:
                reason = form.cleaned_data["reason"]
                self._end_many(reason, ticked, endings, drains=bool(matching.host))
                return redirect(back)
            selection = select(matching, tuple(endings.values()), pages.using)
        except LockBackendError as error:
            return self._not_asked(error, back)
        if not selection.choices:
            messages.warning(request, _nobody(selection))
            return redirect(back)
        context = {
            "title": _("End holds and waits"),
            "original": _("End holds and waits"),
            "filter": matching,
            "selection": selection,
            "holds": selection.counted("release"),
            "waits": selection.counted("cancel"),
            "form": form,
            "ticked": ticked,
            "first": request.method == "GET",
            "drain_command": pages.command("drain", "--host", matching.host),
            "list_url": back,
        }
        return self._respond("bulk", context)

    def _end_many(
        self, reason: str, ticked: Sequence[str], endings: Mapping[str, Ending], *, drains: bool
    ) -> None:
        done = dict.fromkeys(endings, 0)
        marks = chosen(ticked)
        # Waits first, as nobody is to get a lock whose wait is to end, too.
        left = deque(sorted(marks.items()))
        try:
            while left:
                (role, name), shown = left.popleft()
                if role not in endings:
                    continue
                ended = self._end_logged(endings[role], name, reason, shown)
                done[role] += len(ended)
                others = set(shown) - {mark_of(party.token) for party in ended}
                if drains and role == "cancel" and others:
                    # A wait that was granted meanwhile is a hold with the same mark.
                    left.append((("release", name), list(others)))
        finally:
            in_all = sum(done.values())
            told = [endings[role].counted % {"count": count} for role, count in done.items()]
            if gone := sum(map(len, marks.values())) - in_all:
                text = ngettext(
                    "%(count)s of those ticked had ended by itself.",
                    "%(count)s of those ticked had ended by themselves.",
                    gone,
                )
                told.append(text % {"count": gone})
            (messages.success if in_all else messages.warning)(self._request, " ".join(told))

    def _end_logged(
        self, ending: Ending, name: str, reason: str, shown: Collection[str]
    ) -> Sequence[Party]:
        pages = self._pages
        return end_logged(ending, self._model_admin, self._request, pages, name, reason, shown)

    def _not_asked(self, error: LockBackendError, url: str) -> HttpResponse:
        text = _("Redis could not answer: %(error)s")
        messages.error(self._request, text % {"error": error})
        return redirect(url)

    def _list(self) -> Screen:
        form, order = FilterForm(self._request.GET), _order(self._request)
        matching, pages = form.filter(), self._pages
        bulk_url = pages.path("bulk") if any(map(self._may, ENDINGS)) else ""
        least = MOST if form.grouped else 0
        result = search(matching, order=order, read=shared_survey, using=pages.using, least=least)
        head = strip(result, pages)
        group = None
        if form.grouped:
            at = result.survey.at
            group = [GroupRow.of(each, at) for each in groups(result.found)[:MOST_GROUPS]]
        # The groups are few, and no lock's details are shown.
        every = Paginator([] if form.grouped else result.found, LOCKS_A_PAGE)
        shown = every.get_page(page_number(self._request.GET.get("p", "")))
        return list_screen(result, shown, head, pages, matching, order, bulk_url, group)

    def _waits(self) -> Screen:
        return waits_screen(self._request.GET.get("q", ""), self._pages)

    def _lock(self, name: str) -> Screen:
        may = {f"may_{ending.view}": self._may(ending) for ending in ENDINGS}
        pages = self._pages
        view = LockView.of(self._request.GET)
        lock = existing(name, pages.using) or free_lock(name)
        return lock_screen(lock, pages, may, view)

    def _lock_context(self, name: str) -> dict[str, Any]:
        pages = self._pages
        return {
            "title": _("Lock %(name)s") % {"name": printable(name)},
            "original": Lock(name=name),
            "live_url": pages.path("live", name),
            "change_url": pages.url("change", name),
            "list_url": pages.url("changelist"),
        }

    def _page(
        self, template: str, context: dict[str, Any], shown: Callable[[], dict[str, Any]]
    ) -> HttpResponse:
        """Return a page; without the server, one that says so and goes on asking."""
        self._check_view_permission()
        texts = script_texts()
        context = {**context, "texts": texts, "texts_json": json.dumps(texts)}
        try:
            require_answer(self._pages.using)
            context |= shown()
        except LockBackendError as error:
            context["unreachable"] = self._unreachable(error)
        return self._respond(template, context)

    def _as_data(self, answer: Callable[[], HttpResponse]) -> HttpResponse:
        """Return an answer for programs; without the server, as JSON why there is none."""
        self._check_view_permission()
        try:
            require_answer(self._pages.using)
            return answer()
        except LockBackendError as error:
            return JsonResponse({"unreachable": self._unreachable(error)}, status=503)

    def _unreachable(self, error: LockBackendError) -> str:
        """Return what the page says of a server that cannot be asked.

        It says for how long, if this process knows that.
        """
        return away(self._pages.using) or str(error)

    def _respond(self, template: str, context: dict[str, Any]) -> HttpResponse:
        request, site, pages = self._request, self._model_admin.admin_site, self._pages
        request.current_app = site.name
        common = {
            **site.each_context(request),
            "opts": self._model_admin.opts,
            "has_view_permission": True,
            "subtitle": None,
            "servers": pages.choices,
            "server_label": pages.label(pages.using),
            "using": pages.using,
            "all_url": pages.url("changelist"),
        }
        return TemplateResponse(request, f"{TEMPLATES}/{template}.html", common | context)


def _nobody(selection: BulkSelection) -> str:
    """Return why there is nothing to end: of very many locks, only some were looked at."""
    if selection.survey is None:
        return _("Nobody holds these locks or waits for them any more.")
    read = number_format(len(selection.survey.locks), force_grouping=True)
    there = number_format(selection.survey.total, force_grouping=True)
    text = _(
        "Nothing was found in %(read)s of %(there)s locks. `manage.py locks drain` reads all locks "
        "for a host."
    )
    return text % {"read": read, "there": there}


def _order(request: HttpRequest) -> str:
    order = request.GET.get("o", "")
    return order if order in ORDERS else TROUBLE
