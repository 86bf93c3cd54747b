"""The demo's addresses: the live bank as front door, and the admin with comparison and locks."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

# The admin's front page links to the bank.
admin.site.index_template = "bank/admin_index.html"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("failover/", include("demo_project.bank.failover.urls")),
    path("ledger/", include("demo_project.bank.ledger.urls")),
    path("problems/", include("demo_project.bank.problems.urls")),
    path("tellers/", include("demo_project.bank.tellers.urls")),
    path("", include("demo_project.bank.live.urls")),
]
if apps.is_installed("debug_toolbar"):
    urlpatterns += [path("__debug__/", include("debug_toolbar.urls"))]
