"""The bank as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class BankConfig(AppConfig):
    """The demo bank."""

    name = "demo_project.bank"
    label = "bank"
    verbose_name = "Demo bank"
    default_auto_field = "django.db.models.BigAutoField"
