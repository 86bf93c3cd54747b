"""All that the page tells of one run, put together for its template."""

from __future__ import annotations

from typing import Any

from django.utils.formats import date_format
from django.utils.timezone import localtime

from demo_project.benchmark.subjects import TWO_COMMANDS

from .charts import ACCOUNTS_LABELS, charts_of, drawings_of
from .compare.advice import answers_of
from .compare.book import NO_FOURTH_LOCK, rows_of, sentences_of
from .compare.findings import findings_of
from .compare.gate import LEAST_ROUNDS
from .compare.plan import ACCOUNTS
from .compare.summaries import METRICS, Summaries, money_of, summarise_rounds
from .compare.verdict import verdict_of
from .compare.worker import OVERDRAFT_EVERY
from .forms import command_to_repeat, link_to_repeat
from .models import Comparison
from .sources import strategies_shown
from .strategies import ROWS_NOTE, STRATEGIES, label_of

DOUBTS = {"machine", "noise"}
"""Topics of findings that anybody should know who reads a figure."""
LABELS = {
    "server": "Server",
    "users": "Used by",
    "persistence": "Persistence at the start",
    "aof_disk": "AOF is on",
    "connection": "Connection",
    "python": "Python",
    "django": "Django",
    "database": "Database",
    "machine": "Machine",
    "cpus": "Processors",
    "busy_percent": "Busy with other work, %",
}


def story_of(comparison: Comparison | None) -> dict[str, Any]:
    """The template's context; the strategies are explained even where nothing was measured yet."""
    rows = list(comparison.measurements.all()) if comparison else []
    summaries = summarise_rounds(rows)
    charts = charts_of(summaries)
    findings = findings_of(summaries, comparison.busy_percent if comparison else 0)
    for chart in charts:
        chart["findings"] = [
            found for found in findings if found.main and found.topic == chart["topic"]
        ]
    return {
        "comparison": comparison,
        "verdict": verdict_of(summaries),
        "doubts": [found for found in findings if found.topic in DOUBTS],
        "tabs": _tabs(comparison, charts),
        "strategies": strategies_shown(),
        "accounts": ACCOUNTS,
        "rows_note": ROWS_NOTE,
        "findings": findings,
        "charts": charts,
        "drawings": drawings_of(charts),
        "money": _money_rows(summaries),
        "overdraft_every": OVERDRAFT_EVERY,
        "book_table": rows_of(comparison.book_table) if comparison else [],
        "book_sentences": sentences_of(comparison.book_table) if comparison else [],
        "no_fourth_lock": _no_fourth_lock(comparison),
        "answers": answers_of(summaries),
        "rounds": LEAST_ROUNDS,
        "metrics": METRICS,
        "figures": _figures(summaries),
        "repeat_link": link_to_repeat(comparison.parameters) if comparison else None,
        "repeat_command": command_to_repeat(comparison.parameters) if comparison else None,
        "facts": _facts(comparison) if comparison else [],
    }


def _tabs(comparison: Comparison | None, charts: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What the page shows one at a time, the first one at once: an id and a label each."""
    tabs = [(chart["id"], chart["title"]) for chart in charts]
    tabs += [("money", "Money")] if charts else []
    tabs += [("book", "Table 11.2")] if comparison and comparison.book_table else []
    tabs += [("advice", "Which one should I use?"), ("methods", "Methods and code")]
    tabs += [("how", "How it was measured")] if comparison else []
    return [{"id": name, "label": label} for name, label in tabs]


def _no_fourth_lock(comparison: Comparison | None) -> str:
    """Which servers could show the fourth lock of Table 11.2; "" if it is shown, or no table is."""
    locks = {row["lock"] for row in comparison.book_table} if comparison else set()
    return NO_FOURTH_LOCK if locks and TWO_COMMANDS not in locks else ""


def _money_rows(summaries: Summaries) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for _, _, name in summaries)
    return [
        {
            "label": label_of(name),
            "safe": name not in STRATEGIES or STRATEGIES[name].is_safe,
            "money": money_of(
                row for found in summaries.values() if found.strategy == name for row in found.rows
            ),
        }
        for name in names
    ]


def _figures(summaries: Summaries) -> list[dict[str, Any]]:
    """The medians of everything, a row for each combination."""
    return [
        {
            "accounts": found.accounts,
            "workers": found.workers,
            "label": found.label,
            "cells": [metric.show(found.median(metric)) for metric in METRICS],
            "max_ms": f"{max(row.max_ms for row in found.rows):.0f}",
            "failed": sum(row.failed for row in found.rows),
            "money": str(found.money),
            "ok": found.money.conserved,
        }
        for found in summaries.values()
    ]


def _facts(comparison: Comparison) -> list[tuple[str, object]]:
    """Parameters, versions and machine, by name."""
    parameters = comparison.parameters
    measured = [
        ("Methods", ", ".join(map(label_of, parameters.get("strategies", [])))),
        ("Accounts", "; ".join(ACCOUNTS_LABELS[kind] for kind in parameters.get("accounts", []))),
        ("Worker processes", ", ".join(map(str, parameters.get("workers", [])))),
        ("Rounds", parameters.get("rounds")),
        ("Seconds each", parameters.get("seconds")),
        ("Seconds each in a round, Table 11.2", parameters.get("table_seconds") or None),
    ]
    started = date_format(localtime(comparison.started), "DATETIME_FORMAT")
    known = [(LABELS.get(name, name), value) for name, value in comparison.versions.items()]
    facts = [("Started", started), ("Started by", comparison.started_by), *measured, *known]
    return [(name, value) for name, value in facts if value is not None]
