"""The form that starts a comparison."""

from __future__ import annotations

from typing import Any

from django import forms

from .compare.plan import DEFAULT_SECONDS, MAX_SECONDS, MAX_WORKERS, WORKERS, Plan
from .strategies import STRATEGIES, available

LEAST_SECONDS = 0.1


class ComparisonForm(forms.Form):
    """Bounded numbers only: the page may not be used to keep the machine occupied for hours."""

    seconds = forms.FloatField(
        label="Seconds for each measurement",
        min_value=LEAST_SECONDS,
        max_value=MAX_SECONDS,
        initial=DEFAULT_SECONDS,
        help_text=f"From {LEAST_SECONDS} to {MAX_SECONDS:.0f}.",
    )
    workers = forms.TypedMultipleChoiceField(
        label="Worker processes",
        coerce=int,
        choices=[(count, str(count)) for count in WORKERS if count <= MAX_WORKERS],
        initial=list(WORKERS),
        widget=forms.CheckboxSelectMultiple,
    )
    strategies = forms.MultipleChoiceField(
        choices=lambda: [(name, STRATEGIES[name].label) for name in available()],
        initial=available,
        widget=forms.CheckboxSelectMultiple,
    )

    def plan(self) -> Plan:
        """The plan that valid input describes."""
        data: dict[str, Any] = self.cleaned_data
        return Plan(
            seconds=data["seconds"],
            workers=tuple(data["workers"]),
            strategies=tuple(data["strategies"]),
        )
