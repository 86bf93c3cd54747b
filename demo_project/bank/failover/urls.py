"""Addresses of the failover worker."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "failover"
urlpatterns = [
    path("", views.show, name="start_page"),
    path("start/", views.start, name="start"),
    path("<str:name>/", views.show_team, name="team"),
    path("<str:name>/<str:who>/<slug:what>/", views.signal, name="signal"),
]
