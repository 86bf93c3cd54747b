"""What the page draws: each figure by number of workers, marks of one kind for each strategy."""

from __future__ import annotations

from typing import Any

from .compare.findings import crossovers_of, is_main, topic_of
from .compare.plan import ACCOUNTS
from .compare.summaries import METRICS, THROUGHPUT, Metric, Summaries, Summary
from .strategies import STRATEGIES, Kind, durability_of, label_of

ACCOUNTS_LABELS = {
    "hot": f"Hot: all workers on {ACCOUNTS['hot']} accounts",
    "spread": f"Spread: workers on {ACCOUNTS['spread']:,} accounts",
}

FRONT = ("redis_lock", "optimistic", "watch_packed", "watch", "redis_lock_client", "script")
"""The strategies that are drawn unless the viewer asks for others."""
MOST_DRAWN = 6

EXPLANATIONS = {
    "transfers_per_second": "Each mark is the median of the rounds. Its whiskers are the slowest "
    "and the fastest round. Trips are those of a transfer that meets no conflict.",
    "p50_ms": "Half of the transfers take at most this long.",
    "p99_ms": "99 of 100 transfers take at most this long. Waiters in a queue wait alike; a "
    "caller that retries may have bad luck again and again.",
    "retries_per_transfer": "How often a transfer started again, or asked for a lock again. A "
    "waiter in a queue does not retry.",
    "round_trips": "How often a transfer went to the Redis server and back, counted by the "
    "server. On a slow network this decides.",
    "fairness": "1 if all workers made the same number of transfers, 1/n if one of n made them "
    "all.",
}


def charts_of(summaries: Summaries) -> list[dict[str, Any]]:
    """One entry for each metric, with a panel for each kind of accounts; nothing without rounds."""
    charts = []
    for metric in METRICS:
        panels = [_panel(metric, accounts, summaries) for accounts in ACCOUNTS_LABELS]
        charts.append(
            {
                "id": f"by-{metric.field}",
                "title": metric.title,
                "topic": topic_of(metric),
                "explanation": _explain(metric),
                "panels": [panel for panel in panels if panel["series"]],
            }
        )
    return [chart for chart in charts if chart["panels"]]


def _explain(metric: Metric) -> str:
    scale = " Logarithmic scale." if metric.logarithmic else ""
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
    names = sorted(dict.fromkeys(name for name, _ in found), key=_position)
    drawn = sorted(names, key=lambda name: name not in FRONT)[:MOST_DRAWN]
    title = ACCOUNTS_LABELS[accounts]
    rows = [
        {
            "label": _label(name),
            "durability": durability_of(name).value,
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
        "series": [
            {**_series(metric, name, found, workers), "hidden": name not in drawn} for name in names
        ],
        "marks": _marks(accounts, summaries) if metric is THROUGHPUT else [],
        "rows": rows,
        "description": _describe(metric, title, rows, workers),
    }


def _series(
    metric: Metric, name: str, found: dict[tuple[str, int], Summary], workers: list[int]
) -> dict[str, Any]:
    summaries = [found.get((name, count)) for count in workers]
    return {
        "label": _label(name),
        # A strategy keeps its colour whichever others are drawn with it.
        "color": _position(name),
        "limit": name in STRATEGIES and STRATEGIES[name].kind is Kind.LIMIT,
        "data": [summary and summary.median(metric) for summary in summaries],
        "ranges": [summary and summary.range(metric) for summary in summaries],
    }


def _position(name: str) -> int:
    """Its place in the table of strategies, ours first; those that are gone come last."""
    return list(STRATEGIES).index(name) if name in STRATEGIES else len(STRATEGIES)


def _label(name: str) -> str:
    """The strategy, and how many round trips it takes."""
    trips = STRATEGIES[name].round_trips if name in STRATEGIES else None
    words = {None: "", 1: " (1 trip)"}.get(trips, f" ({trips} trips)")
    return f"{label_of(name)}{words}"


def _cell(metric: Metric, summary: Summary | None) -> str:
    if summary is None:
        return "-"
    spread = summary.spread(metric)
    shown = metric.show(summary.median(metric))
    return shown if spread is None else f"{shown} ±{spread:.0f}%"


def _marks(accounts: str, summaries: Summaries) -> list[dict[str, Any]]:
    """Between which numbers of workers something changes, and what."""
    return [
        {"between": found.between, "text": f"{label_of(found.strategy)} stops being better"}
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
