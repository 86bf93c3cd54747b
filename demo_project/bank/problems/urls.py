"""Addresses of the four problems."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "problems"
urlpatterns = [
    path("", views.show, name="all"),
    path("<slug:name>/", views.start, name="start"),
    path("runs/<uuid:run_id>/", views.show_run, name="run"),
]
