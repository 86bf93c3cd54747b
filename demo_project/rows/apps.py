"""The bank over Django models, as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class RowsConfig(AppConfig):
    """Accounts as rows."""

    name = "demo_project.rows"
    label = "bank_rows"
    verbose_name = "Demo bank on the database"
    default_auto_field = "django.db.models.BigAutoField"
