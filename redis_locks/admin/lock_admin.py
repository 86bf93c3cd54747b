"""The admin of locks: a live list, a page for each lock, force-release and cancel."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from redis_locks.admin.actions import Cancel, Ending, Release, end_logged, end_shown, existing
from redis_locks.admin.bulk import chosen, select
from redis_locks.admin.forms import EndForm, FilterForm
from redis_locks.admin.page_content import Screen, list_screen, lock_screen
from redis_locks.admin.paths import ServerPages, from_path
from redis_locks.admin.script_texts import script_texts
from redis_locks.admin.server_strip import Strip, contended_now, shared_survey
from redis_locks.admin.statistics import exported, stats_context
from redis_locks.admin.table_rows import GroupRow, mark_of
from redis_locks.admin.waits import waits_screen
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.filters import ORDERS, TROUBLE, Filter, Page, groups, page, search
from redis_locks.inspection.localized_times import duration
from redis_locks.inspection.story import runs
from redis_locks.inspection.survey import MOST
from redis_locks.inspection.termination import successor
from redis_locks.models import Lock
from redis_locks.statistics import LockStatistics
from redis_locks.values.text import printable

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Lock]
else:
    _ModelAdmin = admin.ModelAdmin

TEMPLATES = "admin/redis_locks/lock"
INDEX_TEMPLATE = "admin/redis_locks/index.html"
MOST_GROUPS = 200
_EXPORTS = ("csv", "json")
_ENDINGS: tuple[Ending[Any], ...] = (Release(), Cancel())


class LockAdmin(_ModelAdmin):
    """Locks come and go by themselves: nothing is added, changed or deleted here."""

    def __init__(self, model: type[Lock], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        # A template of the project's own goes first. It may extend this one.
        if admin_site.index_template is None:
            admin_site.index_template = INDEX_TEMPLATE

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """No lock is made by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """No lock is edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """What is ended is a hold, which has a page and a permission of its own."""
        return False

    def may_end(self, request: HttpRequest, ending: Ending[Any]) -> bool:
        """Whether the user may end holds, or waits."""
        return request.user.has_perm(ending.permission) and self.has_view_permission(request)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Lock:
        """Any name may name a lock; the log of what was done to it outlives it."""
        return Lock(name=object_id)

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of the live data, of force-release and of cancel."""
        view = self.admin_site.admin_view
        own = [
            path("badge/", view(self.badge), name="redis_locks_lock_badge"),
            path("data/", view(self.list_data), name="redis_locks_lock_data"),
            path("bulk/", view(self.bulk), name="redis_locks_lock_bulk"),
            path("stats/", view(self.stats), name="redis_locks_lock_stats"),
            path("waits/", view(self.waits), name="redis_locks_lock_waits"),
            path("<path:object_id>/live/", view(self.lock_data), name="redis_locks_lock_live"),
            path("<path:object_id>/release/", view(self.release), name="redis_locks_lock_release"),
            path("<path:object_id>/cancel/", view(self.cancel), name="redis_locks_lock_cancel"),
        ]
        return own + super().get_urls()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with its filters."""
        form, pages = FilterForm(request.GET), self._pages(request)
        context = {
            "title": pgettext("locks", "Locks"),
            "filter": form.filter(),
            "order": _order(request),
            "live_url": pages.path("data"),
            "stats_url": pages.url("stats"),
            # The admin's own template looks for these around the content.
            "cl": {"opts": self.opts},
            "actions_on_top": True,
        }
        return self._page(request, "list", context | (extra_context or {}), self._list)

    def list_data(self, request: HttpRequest) -> HttpResponse:
        """The news of the list, as JSON."""
        return self._news(request, self._list)

    def badge(self, request: HttpRequest) -> HttpResponse:
        """How many locks have waiters, for the admin's index, as JSON; 204 if no server says so at once."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        servers = contended_now()
        if not any(servers):
            return HttpResponse(status=204)
        locks = sum(len(queues.contended) for queues in servers if queues is not None)
        text = ngettext("%(counter)s lock with waiters", "%(counter)s locks with waiters", locks)
        whole = all(queues is not None and queues.whole for queues in servers)
        # A plus says that not all queues were looked at.
        count = f"{number_format(locks)}{'' if whole else '+'}"
        return JsonResponse({"locks": locks, "text": text % {"counter": count}})

    def stats(self, request: HttpRequest) -> HttpResponse:
        """How often locks were acquired and contended, and how long waits and holds were."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        pages = self._pages(request)
        context: dict[str, Any] = {
            "title": _("Lock statistics"),
            "original": pgettext("locks", "Statistics"),
            "live_url": pages.path("waits"),
            "list_url": pages.url("changelist"),
            **_script_context(),
        }
        try:
            if request.GET.get("format") in _EXPORTS:
                return _figures(request.GET["format"], exported(request.GET, pages.using))
            context |= stats_context(request.GET, pages) | self._waits(request).context
        except LockBackendError as error:
            if request.GET.get("format") in _EXPORTS:
                return JsonResponse({"unreachable": str(error)}, status=503)
            context["unreachable"] = str(error)
        return self._respond(request, "stats", context)

    def waits(self, request: HttpRequest) -> HttpResponse:
        """The news of the waits in progress, as JSON."""
        return self._news(request, self._waits)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One lock: who holds it, who waits for it, and who blocks whom."""
        name = from_path(object_id)
        context = self._lock_context(request, name) | (extra_context or {})
        return self._page(request, "detail", context, lambda request: self._lock(request, name))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """What was done to the locks of this name, on any server."""
        answer = super().history_view(request, object_id, extra_context)
        return self._pages(request).kept_in(answer, from_path(object_id))

    def lock_data(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The news of one lock, as JSON."""
        name = from_path(object_id)
        return self._news(request, lambda request: self._lock(request, name))

    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the holds that were shown by POST."""
        return self._end(request, from_path(object_id), Release())

    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the waits that were shown by POST."""
        return self._end(request, from_path(object_id), Cancel())

    def _end(self, request: HttpRequest, name: str, ending: Ending[Any]) -> HttpResponse:
        if not self.may_end(request, ending):
            raise PermissionDenied
        form, pages = EndForm(request.POST or None), self._pages(request)
        asked = request.POST if request.method == "POST" else request.GET
        marks = asked.getlist("party")
        try:
            if request.method == "POST" and form.is_valid():
                end_shown(ending, self, request, pages, name, form.cleaned_data["reason"], marks)
                return redirect(pages.url("change", name))
            lock = existing(name, pages.using)
        except LockBackendError as error:
            messages.error(request, _("Redis cannot be reached: %(error)s") % {"error": error})
            return redirect(pages.url("change", name))
        parties = ending.choose(lock, marks) if lock else []
        if lock is None or not parties:
            messages.warning(request, str(ending.nothing))
            return redirect(pages.url("change", name))
        context = self._lock_context(request, name) | {
            "form": form,
            "marked": [mark_of(party.token) for party in parties],
            "parties": [ending.row(party, lock.at) for party in parties],
            "waiting": lock.waiting,
            "others": lock.holding - len(parties),
            "fits": successor(lock, [party.token for party in parties]) is not None,
            "next": runs(lock.waiters[0]) if lock.waiters else "",
            "next_waited": duration(lock.waiters[0].waited) if lock.waiters else "",
        }
        return self._respond(request, ending.view, context)

    def bulk(self, request: HttpRequest) -> HttpResponse:
        """Show what a filter finds, and ask for a reason, by GET; end what was ticked by POST."""
        endings = {each.view: each for each in _ENDINGS if self.may_end(request, each)}
        if not endings:
            raise PermissionDenied
        form, matching = EndForm(request.POST or None), FilterForm(request.GET).filter()
        pages = self._pages(request)
        back = f"{pages.path('changelist')}?{request.GET.urlencode()}"
        if matching == Filter():
            messages.warning(request, _("Filter the list first, by host or by name."))
            return redirect(back)
        ticked = request.POST.getlist("end")
        try:
            if request.method == "POST" and form.is_valid() and ticked:
                reason = form.cleaned_data["reason"]
                self._end_many(request, pages, reason, ticked, endings, drains=bool(matching.host))
                return redirect(back)
            selection = select(matching, tuple(endings.values()), pages.using)
        except LockBackendError as error:
            messages.error(request, _("Redis cannot be reached: %(error)s") % {"error": error})
            return redirect(back)
        if not selection.choices:
            messages.warning(request, _("Nobody holds these locks or waits for them any more."))
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
            "list_url": back,
        }
        return self._respond(request, "bulk", context)

    def _end_many(
        self,
        request: HttpRequest,
        pages: ServerPages,
        reason: str,
        ticked: Sequence[str],
        endings: Mapping[str, Ending[Any]],
        *,
        drains: bool,
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
                _, its = end_logged(endings[role], self, request, pages, name, reason, shown)
                done[role] += len(its)
                others = set(shown) - {mark_of(party.token) for party in its}
                if drains and role == "cancel" and others:
                    # A wait that was granted meanwhile is a hold with the same mark.
                    left.append((("release", name), list(others)))
        finally:
            ended = sum(done.values())
            told = [endings[role].counted(count) for role, count in done.items()]
            if gone := sum(map(len, marks.values())) - ended:
                text = ngettext(
                    "%(count)s of those ticked had ended by itself.",
                    "%(count)s of those ticked had ended by themselves.",
                    gone,
                )
                told.append(text % {"count": gone})
            (messages.success if ended else messages.warning)(request, " ".join(told))

    def _pages(self, request: HttpRequest) -> ServerPages:
        return ServerPages.of(request, self.admin_site)

    def _list(self, request: HttpRequest) -> Screen:
        form, order = FilterForm(request.GET), _order(request)
        matching, pages = form.filter(), self._pages(request)
        bulk_url = (
            pages.path("bulk") if any(self.may_end(request, each) for each in _ENDINGS) else ""
        )
        least = MOST if form.grouped else 0
        found = search(matching, order=order, read=shared_survey, using=pages.using, least=least)
        strip = Strip.of(found, pages)
        if form.grouped:
            rows = [GroupRow.of(group, found.survey.at) for group in groups(found.found)]
            # The groups are few, and no lock's details are shown.
            shown = Page((), 1, 1, found)
            return list_screen(
                shown, strip, pages, matching, order, bulk_url, group=rows[:MOST_GROUPS]
            )
        shown = page(_number(request), found)
        return list_screen(shown, strip, pages, matching, order, bulk_url)

    def _waits(self, request: HttpRequest) -> Screen:
        return waits_screen(request.GET.get("q", ""), self._pages(request))

    def _lock(self, request: HttpRequest, name: str) -> Screen:
        may = {f"may_{ending.view}": self.may_end(request, ending) for ending in _ENDINGS}
        pages = self._pages(request)
        return lock_screen(name, existing(name, pages.using), pages, may, _number(request))

    def _lock_context(self, request: HttpRequest, name: str) -> dict[str, Any]:
        pages = self._pages(request)
        return {
            "title": _("Lock %(name)s") % {"name": printable(name)},
            "original": Lock(name=name),
            "live_url": pages.path("live", name),
            "change_url": pages.url("change", name),
            "list_url": pages.url("changelist"),
        }

    def _page(
        self,
        request: HttpRequest,
        template: str,
        context: dict[str, Any],
        screen: Callable[[HttpRequest], Screen],
    ) -> HttpResponse:
        """Return a page; without the server, one that says so and goes on asking."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            shown = screen(request)
        except LockBackendError as error:
            context = context | {"unreachable": str(error)}
        else:
            context = context | shown.context
        return self._respond(request, template, context | _script_context())

    def _news(self, request: HttpRequest, screen: Callable[[HttpRequest], Screen]) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            return screen(request).answer(request)
        except LockBackendError as error:
            return JsonResponse({"unreachable": str(error)}, status=503)

    def _respond(
        self, request: HttpRequest, template: str, context: dict[str, Any]
    ) -> HttpResponse:
        request.current_app = self.admin_site.name
        pages = self._pages(request)
        common = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "has_view_permission": True,
            "subtitle": None,
            "servers": pages.choices,
            "server_label": pages.label(pages.using),
            "using": pages.using,
        }
        answer = TemplateResponse(request, f"{TEMPLATES}/{template}.html", common | context)
        return pages.kept_in(answer)


def _script_context() -> dict[str, Any]:
    texts = script_texts()
    return {"texts": texts, "texts_json": json.dumps(texts)}


def _number(request: HttpRequest) -> int:
    number = request.GET.get("p", "")
    return int(number) if number.isdecimal() and len(number) < 10 else 1  # noqa: PLR2004


def _order(request: HttpRequest) -> str:
    order = request.GET.get("o", "")
    return order if order in ORDERS else TROUBLE


def _figures(wanted: str, rows: Sequence[Mapping[str, Any]]) -> HttpResponse:
    name = {"Content-Disposition": f'attachment; filename="locks.{wanted}"'}
    if wanted == "json":
        return JsonResponse(rows, safe=False, headers=name)
    answer = HttpResponse(content_type="text/csv; charset=utf-8", headers=name)
    columns = [field.name for field in fields(LockStatistics)]
    writer = csv.DictWriter(answer, columns)
    writer.writeheader()
    writer.writerows({**row, "name": _as_text(str(row["name"]))} for row in rows)
    return answer


def _as_text(name: str) -> str:
    """A spreadsheet takes a text that begins so for a formula, which may do harm."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
