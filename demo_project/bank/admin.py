"""The comparison page: start, watch or cancel a run, read its story, and find earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path

from redis_locks import LockBackendError

from .compare.export import as_json, write_csv
from .compare.progress import progress_of
from .compare.runner import AlreadyRunning, cancel, for_this_server, settle_interrupted, start
from .forms import ComparisonForm
from .models import Comparison
from .story import story_of

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Comparison]
else:
    _ModelAdmin = admin.ModelAdmin

LATEST_RUNS = 3
LIST_PAGE = "admin:bank_comparison_changelist"


@admin.register(Comparison)
class ComparisonAdmin(_ModelAdmin):
    """Runs are started here and never edited."""

    list_display = ("__str__", "status", "started", "started_by", "measurements_done", "server")
    list_filter = ("status",)
    list_select_related = ("started_by",)
    list_per_page = 25
    change_list_template = "admin/bank/comparison/list.html"
    change_form_template = "admin/bank/comparison/detail.html"

    @admin.display(description="Measurements")
    def measurements_done(self, comparison: Comparison) -> str:
        """How many of the planned measurements there are."""
        return f"{comparison.measured} of {comparison.planned}"

    @admin.display(description="Server")
    def server(self, comparison: Comparison) -> str:
        """The server that was measured."""
        return str(comparison.versions.get("server", "-"))

    def has_change_permission(self, request: HttpRequest, obj: Comparison | None = None) -> bool:
        """What was measured is never changed."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of a run's beginning, course and export to the admin's own."""
        own = (
            ("start/", self.start_view, "start"),
            ("<int:pk>/progress/", self.progress_view, "progress"),
            ("<int:pk>/cancel/", self.cancel_view, "cancel"),
            ("<int:pk>/comparison.json", self.json_view, "json"),
            ("<int:pk>/comparison.csv", self.csv_view, "csv"),
        )
        view = self.admin_site.admin_view
        paths = [
            path(route, view(call), name=f"bank_comparison_{name}") for route, call, name in own
        ]
        return paths + super().get_urls()

    def add_view(self, *_args: Any, **_kwargs: Any) -> HttpResponse:
        """The form to start a run is on the list page."""
        return redirect(LIST_PAGE)

    def start_view(self, request: HttpRequest) -> HttpResponse:
        """By POST, start a run; by GET, show the form, filled in from the address."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            form = ComparisonForm(request.POST)
            if form.is_valid():
                return self._start(request, form)
        else:
            form = ComparisonForm(request.GET or None)
        # The list below the form takes parameters for filters of its own, and a POST for an action.
        request.GET, request.method = QueryDict(), "GET"
        return self.changelist_view(request, {"form": form, "form_first": True})

    def _start(self, request: HttpRequest, form: ComparisonForm) -> HttpResponse:
        try:
            start(for_this_server(form.plan()), request.user)  # type: ignore[arg-type]
        except (AlreadyRunning, LockBackendError) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, "The comparison has started.")
        return redirect(LIST_PAGE)

    def cancel_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """End a run; POST only, for those who may start one."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if cancel(pk, request.user.get_username()):
            messages.success(request, "The comparison is being cancelled.")
        else:
            messages.warning(request, "That comparison is not running any more.")
        return redirect(LIST_PAGE)

    def progress_view(self, request: HttpRequest, pk: int) -> JsonResponse:
        """How far a run has come, as JSON for the page's script."""
        return JsonResponse(progress_of(self._find(request, pk)))

    def json_view(self, request: HttpRequest, pk: int) -> JsonResponse:
        """Everything that is known of a run."""
        comparison = self._find(request, pk)
        headers = _as_file(comparison, "json")
        options = {"indent": 2}
        return JsonResponse(as_json(comparison), json_dumps_params=options, headers=headers)

    def csv_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Each measurement of a run."""
        comparison = self._find(request, pk)
        headers = _as_file(comparison, "csv")
        response = HttpResponse(content_type="text/csv; charset=utf-8", headers=headers)
        write_csv(response, comparison)
        return response

    def _find(self, request: HttpRequest, pk: int) -> Comparison:
        if not self.has_view_permission(request):
            raise PermissionDenied
        settle_interrupted()
        return get_object_or_404(Comparison, pk=pk)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The run under way, the story of the latest one, the form, and the list of all runs."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        settle_interrupted()
        newest = Comparison.objects.first()
        running = Comparison.objects.filter(status=Comparison.Status.RUNNING).first()
        latest = Comparison.objects.filter(status=Comparison.Status.FINISHED).first()
        context = {
            "title": "Compare transfer strategies",
            "form": ComparisonForm() if self.has_add_permission(request) else None,
            "running": running,
            "progress": progress_of(running) if running else None,
            "runs": Comparison.objects.all()[:LATEST_RUNS],
            "ended": newest if newest not in (running, latest) else None,
            **story_of(latest),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One run with all its figures."""
        settle_interrupted()
        found = Comparison.objects.filter(pk=object_id).first() if object_id.isdecimal() else None
        context = {"subtitle": None, **story_of(found)}
        if found:
            context["title"] = str(found)
        return super().change_view(request, object_id, form_url, context | (extra_context or {}))


def _as_file(comparison: Comparison, kind: str) -> dict[str, str]:
    """The header that has a browser save the answer."""
    name = f"comparison-{comparison.pk}.{kind}"
    return {"Content-Disposition": f'attachment; filename="{name}"'}
