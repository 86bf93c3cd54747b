"""What the page draws: throughput over workers, one line for each strategy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .models import Measurement

TITLES = {
    "hot": "Hot: all workers on 2 accounts",
    "spread": "Spread: workers on 1000 accounts",
}


def charts_of(measurements: Iterable[Measurement]) -> list[dict[str, Any]]:
    """One chart for each kind of accounts; a combination that was not measured is None."""
    rows = list(measurements)
    workers = sorted({row.workers for row in rows})
    charts = []
    for accounts, title in TITLES.items():
        found = {
            (row.strategy_label, row.workers): row.transfers_per_second
            for row in rows
            if row.accounts == accounts
        }
        labels = list(dict.fromkeys(label for label, _ in found))
        series = [
            {"label": label, "data": [found.get((label, count)) for count in workers]}
            for label in labels
        ]
        if series:
            charts.append(
                {
                    "id": f"chart-{accounts}",
                    "title": title,
                    "description": _describe(title, series, workers),
                    "workers": workers,
                    "series": series,
                }
            )
    return charts


def _describe(title: str, series: list[dict[str, Any]], workers: list[int]) -> str:
    """The chart in words, for those who do not see it."""
    last = ", ".join(
        f"{line['label']} {line['data'][-1]:.0f}" for line in series if line["data"][-1] is not None
    )
    return f"{title}. Transfers per second with {workers[-1]} workers: {last}. All figures are in the table."
