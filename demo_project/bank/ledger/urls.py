"""Addresses of the ledger."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "ledger"
urlpatterns = [
    path("", views.show, name="start_page"),
    path("start/", views.start, name="start"),
    path("runs/<uuid:run_id>/", views.show_run, name="run"),
]
