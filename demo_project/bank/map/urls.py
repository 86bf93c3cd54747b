"""Addresses of the map."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "map"
urlpatterns = [
    path("", views.show, name="latest"),
    path("start/", views.start, name="start"),
    path("<int:pk>/", views.show_map, name="one"),
    path("<int:pk>/picture/", views.show_picture, name="picture"),
    path("<int:pk>/stop/", views.stop, name="stop"),
]
