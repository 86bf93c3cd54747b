"""The form that starts a comparison; an address can fill it in, so a link can repeat a run."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.urls import reverse

from .charts import ACCOUNTS_LABELS
from .compare.plan import (
    DEFAULT_ROUNDS,
    DEFAULT_SECONDS,
    DEFAULT_TABLE_SECONDS,
    MAX_ROUNDS,
    MAX_SECONDS,
    MAX_WORKERS,
    MIN_SECONDS,
    WORKERS,
    Plan,
)
from .strategies import STRATEGIES, available

# The page may not be used to keep the machine occupied for hours.
LONGEST_RUN_SECONDS = 900


class ComparisonForm(forms.Form):
    """What to measure, within bounds."""

    strategies = forms.MultipleChoiceField(
        label="Methods",
        choices=lambda: [(name, STRATEGIES[name].label) for name in available()],
        initial=available,
        widget=forms.CheckboxSelectMultiple,
    )
    accounts = forms.MultipleChoiceField(
        choices=list(ACCOUNTS_LABELS.items()),
        initial=list(ACCOUNTS_LABELS),
        widget=forms.CheckboxSelectMultiple,
    )
    workers = forms.CharField(
        label="Worker processes",
        initial=" ".join(map(str, WORKERS)),
        help_text=f"Numbers from 1 to {MAX_WORKERS}, with spaces between.",
    )
    seconds = forms.FloatField(
        label="Seconds for each measurement",
        min_value=MIN_SECONDS,
        max_value=MAX_SECONDS,
        initial=DEFAULT_SECONDS,
        help_text=f"From {MIN_SECONDS} to {MAX_SECONDS:.0f}.",
    )
    rounds = forms.IntegerField(
        min_value=1,
        max_value=MAX_ROUNDS,
        initial=DEFAULT_ROUNDS,
        help_text="How often all of it is measured, in turn, to tell differences from noise.",
    )

    table_seconds = forms.FloatField(
        label="Seconds for each lock of Table 11.2 in each round",
        required=False,
        min_value=0,
        max_value=MAX_SECONDS,
        initial=DEFAULT_TABLE_SECONDS,
        help_text="0 leaves the table of the book out.",
    )

    def clean_table_seconds(self) -> float:
        """Runs from before there was the table are repeated without it."""
        seconds: float | None = self.cleaned_data["table_seconds"]
        return seconds or 0.0

    def clean_workers(self) -> tuple[int, ...]:
        """The numbers; whether they are in bounds is for the plan to say."""
        try:
            return tuple(map(int, self.cleaned_data["workers"].replace(",", " ").split()))
        except ValueError as error:
            raise forms.ValidationError("Whole numbers only, such as 1 2 5 10.") from error

    def clean(self) -> dict[str, Any]:
        """Make the plan of it."""
        data: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                plan = Plan.from_dict({**data, "workers": list(data["workers"])})
            except ValueError as error:
                raise forms.ValidationError(str(error)) from error
            if plan.estimated_seconds > LONGEST_RUN_SECONDS:
                minutes = plan.estimated_seconds / 60
                raise forms.ValidationError(
                    f"This would take {minutes:.0f} minutes, and {LONGEST_RUN_SECONDS // 60} are "
                    "the most here. Take fewer rounds, or run it by manage.py compare."
                )
            data["plan"] = plan
        return data

    def plan(self) -> Plan:
        """The plan that valid input describes."""
        plan: Plan = self.cleaned_data["plan"]
        return plan


def link_to_repeat(parameters: dict[str, Any]) -> str | None:
    """The address of the form filled in with a run's parameters.

    None if the run would take longer than the page allows.
    """
    try:
        if Plan.from_dict(parameters).estimated_seconds > LONGEST_RUN_SECONDS:
            return None
    except (TypeError, ValueError):
        # A plan of another version: the form says what is wrong with it.
        pass
    fields = {**parameters, "workers": " ".join(map(str, parameters.get("workers", [])))}
    return f"{reverse('admin:bank_comparison_start')}?{urlencode(fields, doseq=True)}"


def command_to_repeat(parameters: dict[str, Any]) -> str:
    """The command that makes a run again, however long it takes."""
    words = ["manage.py", "compare"]
    for name, value in parameters.items():
        if name == "table_locks":  # those that the server has the commands for
            continue
        values = value if isinstance(value, list) else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return " ".join(words)
