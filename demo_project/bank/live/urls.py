"""Addresses of the live bank."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "bank"
urlpatterns = [
    path("", views.show, name="live"),
    path("transfer/", views.transfer, name="transfer"),
    path("race/", views.race, name="race"),
    path("race/<uuid:race_id>/", views.show_race, name="result"),
    path("race/all/", views.race_all, name="race_all"),
    path("race/all/<uuid:rush_id>/", views.show_rush, name="rush"),
    path("open/", views.open_all, name="open"),
]
