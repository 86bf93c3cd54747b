"""The four sliders of the map."""

from __future__ import annotations

from typing import Any

from django import forms

from .survey import (
    FEWEST_ACCOUNTS,
    MAX_LATENCY_MS,
    MAX_WORK_MS,
    MAX_WORKERS,
    MOST_ACCOUNTS,
    Survey,
)

USUAL = Survey()


def _slider(step: float, unit: str) -> forms.NumberInput:
    return forms.NumberInput(attrs={"type": "range", "step": step, "data-unit": unit})


class SurveyForm(forms.Form):
    """How far the grid goes."""

    workers = forms.IntegerField(
        label="Worker processes",
        min_value=1,
        max_value=MAX_WORKERS,
        initial=USUAL.workers,
        widget=_slider(1, ""),
        help_text="They transfer money at the same time.",
    )
    accounts = forms.IntegerField(
        label="Accounts, at most",
        min_value=FEWEST_ACCOUNTS,
        max_value=MOST_ACCOUNTS,
        initial=USUAL.accounts,
        widget=_slider(1, ""),
        help_text="The columns go from 2 to here. Fewer accounts have more conflicts.",
    )
    latency_ms = forms.FloatField(
        label="Latency, at most",
        min_value=0,
        max_value=MAX_LATENCY_MS,
        initial=USUAL.latency_ms,
        widget=_slider(0.5, " ms"),
        help_text="A proxy adds it to each round trip. There is one grid without and one with it.",
    )
    work_ms = forms.FloatField(
        label="Work inside, at most",
        min_value=0,
        max_value=MAX_WORK_MS,
        initial=USUAL.work_ms,
        widget=_slider(1, " ms"),
        help_text="Between reading and writing. The rows go from 0 to here.",
    )

    def survey(self) -> Survey:
        """The survey that valid input describes."""
        data: dict[str, Any] = self.cleaned_data
        return Survey(**data)
