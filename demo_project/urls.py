"""The demo's addresses: the live bank as its front door, and the admin with comparison and locks."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

# The admin's front page links to the bank.
admin.site.index_template = "bank/admin_index.html"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("demo_project.bank.live.urls")),
]
