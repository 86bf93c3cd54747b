"""The demo's addresses: the admin, and the comparison page as its front door."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:bank_comparison_changelist")),
    path("admin/", admin.site.urls),
]
