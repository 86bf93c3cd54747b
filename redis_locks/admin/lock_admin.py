"""The admin of locks: addresses and permissions. `lock_views` answers the requests.

Django's admin imports this module in every process, and most processes never show a page.
So `lock_views` is imported with the first request for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from redis_locks.models import Lock

if TYPE_CHECKING:
    from redis_locks.admin.actions import Ending
    from redis_locks.admin.lock_views import LockViews

    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Lock]
else:
    _ModelAdmin = admin.ModelAdmin

INDEX_TEMPLATE = "admin/redis_locks/index.html"


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
            path("deadlocks/", view(self.deadlocks), name="redis_locks_lock_deadlocks"),
            path("<path:object_id>/live/", view(self.lock_data), name="redis_locks_lock_live"),
            path("<path:object_id>/release/", view(self.release), name="redis_locks_lock_release"),
            path("<path:object_id>/cancel/", view(self.cancel), name="redis_locks_lock_cancel"),
        ]
        return own + super().get_urls()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with its filters."""
        return self._views(request).lock_list(extra_context)

    def list_data(self, request: HttpRequest) -> HttpResponse:
        """The news of the list, as JSON."""
        return self._views(request).list_data()

    def badge(self, request: HttpRequest) -> HttpResponse:
        """How many locks have waiters, for the admin's index, as JSON; 204 if no server says so at once."""
        return self._views(request).badge()

    def stats(self, request: HttpRequest) -> HttpResponse:
        """How often locks were acquired and contended, and how long waits and holds were."""
        return self._views(request).stats()

    def waits(self, request: HttpRequest) -> HttpResponse:
        """The news of the waits in progress, as JSON."""
        return self._views(request).waits()

    def deadlocks(self, request: HttpRequest) -> HttpResponse:
        """The deadlocks of the last hour: sessions, locks and lines of code."""
        return self._views(request).deadlocks()

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One lock: who holds it, who waits for it, and who blocks whom."""
        return self._views(request).lock(object_id, extra_context)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """What operators did to the locks of this name, on any server."""
        return self._views(request).operators_log(object_id, extra_context)

    def lock_data(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The news of one lock, as JSON."""
        return self._views(request).lock_data(object_id)

    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the holds that were shown by POST."""
        return self._views(request).release(object_id)

    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for a reason by GET; end the waits that were shown by POST."""
        return self._views(request).cancel(object_id)

    def bulk(self, request: HttpRequest) -> HttpResponse:
        """Show what a filter finds, and ask for a reason, by GET; end what was ticked by POST."""
        return self._views(request).bulk()

    def _views(self, request: HttpRequest) -> LockViews:
        from redis_locks.admin.lock_views import LockViews

        return LockViews(self, request, self.may_end)
