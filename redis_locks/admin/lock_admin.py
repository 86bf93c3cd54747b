"""The admin of locks: a live list, a page for each lock, force-release and cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from redis_locks.admin.actions import Cancel, Ending, Release, end_shown, existing
from redis_locks.admin.forms import EndForm, FilterForm
from redis_locks.admin.page_content import Screen, list_screen, lock_screen
from redis_locks.admin.paths import from_path, lock_url
from redis_locks.admin.statistics import stats_context
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.filters import ORDERS, Filter, page
from redis_locks.models import Lock
from redis_locks.values.text import printable

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Lock]
else:
    _ModelAdmin = admin.ModelAdmin

TEMPLATES = "admin/redis_locks/lock"
_ENDINGS: tuple[Ending[Any], ...] = (Release(), Cancel())


class LockAdmin(_ModelAdmin):
    """Locks come and go by themselves: nothing is added, changed or deleted here."""

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
            path("data/", view(self.list_data), name="redis_locks_lock_data"),
            path("stats/", view(self.stats), name="redis_locks_lock_stats"),
            path("<path:object_id>/live/", view(self.lock_data), name="redis_locks_lock_live"),
            path("<path:object_id>/release/", view(self.release), name="redis_locks_lock_release"),
            path("<path:object_id>/cancel/", view(self.cancel), name="redis_locks_lock_cancel"),
        ]
        return own + super().get_urls()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with its filters."""
        form = FilterForm(request.GET, label_suffix="")
        context = {
            "title": "Locks",
            "form": form,
            "live_url": self._url("data"),
            "stats_url": self._url("stats"),
            # The admin's own template looks for these around the content.
            "cl": {"opts": self.opts},
            "actions_on_top": True,
        }
        return self._page(request, "list", context | (extra_context or {}), self._list)

    def list_data(self, request: HttpRequest) -> HttpResponse:
        """The news of the list, as JSON."""
        return self._news(request, self._list)

    def stats(self, request: HttpRequest) -> HttpResponse:
        """How often locks were acquired and contended, and how long waits and holds were."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = {"title": "Lock statistics", "list_url": self._url("changelist")}
        try:
            context |= stats_context(request.GET, self.admin_site)
        except LockBackendError as error:
            context["unreachable"] = str(error)
        return self._respond(request, "stats", context)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One lock: who holds it, who waits for it, and who blocks whom."""
        name = from_path(object_id)
        context = self._lock_context(name) | (extra_context or {})
        return self._page(request, "detail", context, lambda request: self._lock(request, name))

    def lock_data(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The news of one lock, as JSON."""
        name = from_path(object_id)
        return self._news(request, lambda request: self._lock(request, name))

    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the holds that were shown by POST."""
        return self._end(request, from_path(object_id), Release())

    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the wait with that token by POST."""
        return self._end(request, from_path(object_id), Cancel())

    def _end(self, request: HttpRequest, name: str, ending: Ending[Any]) -> HttpResponse:
        if not self.may_end(request, ending):
            raise PermissionDenied
        form = EndForm(request.POST or None)
        asked = request.POST if request.method == "POST" else request.GET
        tokens = asked.getlist("token")
        try:
            if request.method == "POST" and form.is_valid():
                end_shown(ending, self, request, name, form.cleaned_data["reason"], tokens)
                return redirect(lock_url(self.admin_site, "change", name))
            lock = existing(name)
        except LockBackendError as error:
            messages.error(request, f"Redis cannot be reached: {error}")
            return redirect(lock_url(self.admin_site, "change", name))
        parties = ending.choose(lock, tokens) if lock else []
        if lock is None or not parties:
            messages.warning(request, ending.nothing)
            return redirect(lock_url(self.admin_site, "change", name))
        context = self._lock_context(name) | {
            "form": form,
            "tokens": [party.token for party in parties],
            "parties": [ending.row(party, lock.at) for party in parties],
            "waiting": lock.waiting,
        }
        return self._respond(request, ending.view, context)

    def _url(self, view: str) -> str:
        return reverse(f"admin:redis_locks_lock_{view}", current_app=self.admin_site.name)

    def _list(self, request: HttpRequest) -> Screen:
        matching, order = FilterForm(request.GET).filter(), _order(request)
        found = page(_number(request), matching=matching, order=order)
        filtered = matching != Filter()
        return list_screen(found, self.admin_site, filtered=filtered, order=order)

    def _lock(self, request: HttpRequest, name: str) -> Screen:
        may = {f"may_{ending.view}": self.may_end(request, ending) for ending in _ENDINGS}
        return lock_screen(name, existing(name), self.admin_site, may)

    def _lock_context(self, name: str) -> dict[str, Any]:
        return {
            "title": f"Lock {printable(name)}",
            "original": Lock(name=name),
            "live_url": lock_url(self.admin_site, "live", name),
            "change_url": lock_url(self.admin_site, "change", name),
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
            context = context | {**shown.context, "screen": shown}
        return self._respond(request, template, context)

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
        common = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "has_view_permission": True,
            "subtitle": None,
        }
        return TemplateResponse(request, f"{TEMPLATES}/{template}.html", common | context)


def _number(request: HttpRequest) -> int:
    number = request.GET.get("p", "")
    return int(number) if number.isdecimal() and len(number) < 10 else 1  # noqa: PLR2004


def _order(request: HttpRequest) -> str:
    order = request.GET.get("o", "")
    return order if order in ORDERS else "name"
