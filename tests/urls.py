"""Addresses of the test project: the admin only; tests that need views name their own URLconf."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
