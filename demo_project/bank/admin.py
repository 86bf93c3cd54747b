"""The comparison page: start a run, watch it, read its figures; earlier runs stay listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse

from redis_locks import LockBackendError

from .charts import charts_of
from .compare.recording import AlreadyRunning, settle_interrupted, start_comparison
from .forms import ComparisonForm
from .models import Comparison
from .report import describe_money

if TYPE_CHECKING:
    # Django's class is generic for type checkers only.
    _ModelAdmin = admin.ModelAdmin[Comparison]
else:
    _ModelAdmin = admin.ModelAdmin

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
        """Add the start and progress addresses to the admin's own."""
        view = self.admin_site.admin_view
        own = [
            path("start/", view(self.start_view), name="bank_comparison_start"),
            path("<int:pk>/progress/", view(self.progress_view), name="bank_comparison_progress"),
        ]
        return own + super().get_urls()

    def add_view(self, *_args: Any, **_kwargs: Any) -> HttpResponse:
        """The form to start a run is on the list page."""
        return redirect(LIST_PAGE)

    def start_view(self, request: HttpRequest) -> HttpResponse:
        """Start a run; POST only, because it changes something."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = ComparisonForm(request.POST)
        if not form.is_valid():
            return self.changelist_view(request, {"form": form})
        try:
            start_comparison(form.plan(), request.user)  # type: ignore[arg-type]
        except (AlreadyRunning, LockBackendError) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, "The comparison has started.")
        return redirect(LIST_PAGE)

    def progress_view(self, request: HttpRequest, pk: int) -> JsonResponse:
        """How far a run has come, as JSON for the page's script."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        _settle(request)
        comparison = get_object_or_404(Comparison, pk=pk)
        return JsonResponse(
            {
                "status": comparison.status,
                "measured": comparison.measured,
                "planned": comparison.planned,
            }
        )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list of runs, above it the form and the run under way or the latest figures."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        _settle(request)
        running = Comparison.objects.filter(status=Comparison.Status.RUNNING).first()
        latest = Comparison.objects.filter(status=Comparison.Status.FINISHED).first()
        context = {
            "title": "Compare transfer strategies",
            "form": ComparisonForm() if self.has_add_permission(request) else None,
            "running": running,
            **_figures(latest),
        }
        if request.method == "POST" and request.path == reverse("admin:bank_comparison_start"):
            # Show the refused form by the admin's list, which takes a POST for an action of its own.
            request.method = "GET"
        return super().changelist_view(request, context | (extra_context or {}))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One run with all its figures."""
        _settle(request)
        found = Comparison.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        context = {"subtitle": None, **_figures(found)}
        if found:
            context["title"] = str(found)
        return super().change_view(request, object_id, form_url, context | (extra_context or {}))


def _figures(comparison: Comparison | None) -> dict[str, Any]:
    rows = list(comparison.measurements.all()) if comparison else []
    return {
        "comparison": comparison,
        "rows": [(row, describe_money(row)) for row in rows],
        "charts": charts_of(rows),
    }


def _settle(request: HttpRequest) -> None:
    """Mark dead runs; a server that cannot be asked is reported, and the page still shows what it has."""
    try:
        settle_interrupted()
    except LockBackendError as error:
        messages.warning(request, str(error))
