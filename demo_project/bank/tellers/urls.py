"""Addresses of the tellers."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "tellers"
urlpatterns = [
    path("", views.show, name="start_page"),
    path("open/", views.open_branch, name="open"),
    path("<str:name>/", views.show_branch, name="branch"),
    path("<str:name>/customers/", views.let_in, name="customers"),
    path("<str:name>/permits/<int:permits>/", views.set_permits, name="permits"),
    path("<str:name>/crash/<str:who>/", views.crash, name="crash"),
]
