"""A run as JSON and as CSV, for scripts and spreadsheets."""

from __future__ import annotations

import csv
from typing import Any, Protocol

from django.forms.models import model_to_dict

from demo_project.bank.models import Comparison, Measurement

from .findings import crossovers_of, findings_of
from .summaries import METRICS, Summary, summarise_rounds


class SupportsWrite(Protocol):
    """A file, or an answer to a browser."""

    def write(self, text: str, /) -> object:
        """Take the text."""


_FIELDS = [
    field.name
    for field in Measurement._meta.concrete_fields
    if field.name not in {"id", "comparison"}
]


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Everything known of a run in JSON's types: parameters, machine, medians, findings, rounds."""
    rows = list(comparison.measurements.all())
    summaries = summarise_rounds(rows)
    return {
        "comparison": comparison.pk,
        "status": comparison.status,
        "error": comparison.error,
        "started": comparison.started.isoformat(),
        "finished": comparison.finished and comparison.finished.isoformat(),
        "parameters": comparison.parameters,
        "versions": comparison.versions,
        "findings": [
            {"topic": found.topic, "text": found.text}
            for found in findings_of(summaries, comparison.busy_percent)
        ],
        "table_11_2": comparison.book_table,
        "crossovers": [
            {
                "accounts": found.accounts,
                "strategy": found.strategy,
                "rival": found.rival,
                "stops_being_better_between": found.between,
                "better": found.better,
                "rival_better": found.worse,
                "no_difference": found.no_difference,
                "not_decided": found.not_decided,
            }
            for found in crossovers_of(summaries)
        ],
        "medians": [_medians(summary) for summary in summaries.values()],
        "measurements": [_row(measurement) for measurement in rows],
    }


def write_csv(stream: SupportsWrite, comparison: Comparison) -> None:
    """Write one line for each measurement, below the names of the columns."""
    writer = csv.DictWriter(stream, ["comparison", *_FIELDS, "conserved"])
    writer.writeheader()
    for measurement in comparison.measurements.all():
        writer.writerow({"comparison": comparison.pk, **_row(measurement)})


def _row(measurement: Measurement) -> dict[str, Any]:
    return {**model_to_dict(measurement, fields=_FIELDS), "conserved": measurement.conserved}


def _medians(summary: Summary) -> dict[str, Any]:
    return {
        "accounts": summary.accounts,
        "workers": summary.workers,
        "strategy": summary.strategy,
        "rounds": len(summary.rows),
        "conserved": summary.money.conserved,
        **{metric.field: summary.median(metric) for metric in METRICS},
        **{f"{metric.field}_range": summary.range(metric) for metric in METRICS},
    }
