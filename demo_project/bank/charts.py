"""What the page draws: each figure over the numbers of workers, one line for each strategy."""

from __future__ import annotations

from typing import Any

from .compare.findings import crossovers_of, is_main, topic_of
from .compare.plan import ACCOUNTS
from .compare.summaries import METRICS, THROUGHPUT, Metric, Summaries, Summary
from .strategies import STRATEGIES, Kind, label_of

ACCOUNTS_LABELS = {
    "hot": f"Hot: all workers on {ACCOUNTS['hot']} accounts",
    "spread": f"Spread: workers on {ACCOUNTS['spread']} accounts",
}

EXPLANATIONS = {
    "transfers_per_second": "A line joins the medians of the rounds; whiskers reach from the lowest "
    "round to the highest. Dashed: one Lua script, which needs no lock, as the limit. A click on a name hides its line.",
    "p50_ms": "What half of the callers wait at most for a transfer.",
    "p99_ms": "What the unlucky ones wait: here it shows who stands in a queue, and who has bad luck "
    "again and again.",
    "retries_per_transfer": "How often a transfer was started, or a lock was asked for, again. Whoever "
    "waits in a queue does not retry.",
    "round_trips": "How often a transfer went to the Redis server and back, counted by the server. "
    "Where the network is slower than here, this decides.",
    "fairness": "1 when all workers made as many transfers as each other, down to 1/n when one of n "
    "made them all. No order is stated: so close to their bound, such differences come and go.",
}


def charts_of(summaries: Summaries) -> list[dict[str, Any]]:
    """One entry for each metric with a panel for each kind of accounts; nothing when nothing was measured."""
    charts = []
    for metric in METRICS:
        panels = [_panel(metric, accounts, summaries) for accounts in ACCOUNTS_LABELS]
        charts.append(
            {
                "title": metric.title,
                "topic": topic_of(metric),
                "explanation": _explain(metric),
                "panels": [panel for panel in panels if panel["series"]],
            }
        )
    return [chart for chart in charts if chart["panels"]]


def _explain(metric: Metric) -> str:
    scale = (
        " The scale is logarithmic: from 10 to 100 it is as far as from 100 to 1,000."
        if metric.logarithmic
        else ""
    )
    return f"{metric.direction.capitalize()}. {EXPLANATIONS[metric.field]}{scale}"


def drawings_of(charts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the page's script needs of the charts."""
    return [
        {key: panel[key] for key in ("id", "unit", "logarithmic", "workers", "series", "marks")}
        for chart in charts
        for panel in chart["panels"]
    ]


def _panel(metric: Metric, accounts: str, summaries: Summaries) -> dict[str, Any]:
    found = {
        (name, workers): summary
        for (kind, workers, name), summary in summaries.items()
        if kind == accounts and summary.median(metric) is not None
    }
    workers = sorted({count for _, count in found})
    names = list(dict.fromkeys(name for name, _ in found))
    title = ACCOUNTS_LABELS[accounts]
    rows = [
        {
            "label": label_of(name),
            "cells": [_cell(metric, found.get((name, count))) for count in workers],
        }
        for name in names
    ]
    return {
        "id": f"chart-{accounts}-{metric.field}",
        "title": title,
        "unit": metric.unit,
        "logarithmic": metric.logarithmic,
        "workers": workers,
        "series": [_series(metric, name, found, workers) for name in names],
        "marks": _marks(accounts, summaries) if metric is THROUGHPUT else [],
        "rows": rows,
        "description": _describe(metric, title, rows, workers),
    }


def _series(
    metric: Metric, name: str, found: dict[tuple[str, int], Summary], workers: list[int]
) -> dict[str, Any]:
    summaries = [found.get((name, count)) for count in workers]
    return {
        "label": label_of(name),
        # A strategy keeps its colour whichever others are drawn with it.
        "color": list(STRATEGIES).index(name) if name in STRATEGIES else len(STRATEGIES),
        "limit": name in STRATEGIES and STRATEGIES[name].kind is Kind.LIMIT,
        "data": [summary and summary.median(metric) for summary in summaries],
        "ranges": [summary and summary.range(metric) for summary in summaries],
    }


def _cell(metric: Metric, summary: Summary | None) -> str:
    if summary is None:
        return "-"
    spread = summary.spread(metric)
    shown = metric.show(summary.median(metric))
    return shown if spread is None else f"{shown} ±{spread:.0f}%"


def _marks(accounts: str, summaries: Summaries) -> list[dict[str, Any]]:
    """Between which numbers of workers something changes, and what."""
    return [
        {"between": found.between, "text": f"{label_of(found.strategy)} stops winning"}
        for found in crossovers_of(summaries)
        if found.accounts == accounts and is_main(found) and found.between
    ]


def _describe(metric: Metric, title: str, rows: list[dict[str, Any]], workers: list[int]) -> str:
    """The chart in words, for those who do not see it."""
    if not rows:
        return ""
    last = ", ".join(f"{row['label']} {row['cells'][-1]}" for row in rows)
    return (
        f"{title}. {metric.unit} with {workers[-1]} workers: {last}. All figures are in the table."
    )
