"""The admin of locks: addresses and permissions. `lock_views` answers the requests.

Django's admin imports this module in every process, and most processes never show a page.
So `lock_views` is imported with the first request for one.
"""

from __future__ import annotations

from functools import partial
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

_VIEWS = ("badge", "data", "bulk", "stats", "waits", "deadlocks")
_VIEWS_OF_A_LOCK = ("live", "release", "cancel")
"""The methods of `LockViews` that have an address of their own."""

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

    def may_end(self, request: HttpRequest, ending: Ending) -> bool:
        """Whether the user may end holds, or waits."""
        return request.user.has_perm(ending.permission) and self.has_view_permission(request)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Lock:
        """Any name may name a lock; the log of what was done to it outlives it."""
        return Lock(name=object_id)

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of the live data, of force-release and of cancel."""
        own = [self._url(f"{view}/", view) for view in _VIEWS]
        own += [self._url(f"<path:object_id>/{view}/", view) for view in _VIEWS_OF_A_LOCK]
        return own + super().get_urls()

    def _url(self, route: str, view: str) -> URLPattern:
        answer = self.admin_site.admin_view(partial(self._answer, view))
        return path(route, answer, name=f"redis_locks_lock_{view}")

    def _answer(self, view: str, request: HttpRequest, **lock: Any) -> HttpResponse:
        answer: HttpResponse = getattr(self._views(request), view)(**lock)
        return answer

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with its filters."""
        return self._views(request).lock_list(extra_context)

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

    def _views(self, request: HttpRequest) -> LockViews:
        from redis_locks.admin.lock_views import LockViews

        return LockViews(self, request, self.may_end)
