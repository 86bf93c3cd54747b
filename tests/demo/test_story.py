"""The story of a run: the code as it runs, charts with tables and words, exports."""

from __future__ import annotations

import csv
import html
import inspect
import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from demo_project.bank.charts import charts_of, drawings_of
from demo_project.bank.compare.summaries import METRICS, summarise_rounds
from demo_project.bank.compare.verdict import verdict_of
from demo_project.bank.models import Comparison
from demo_project.bank.sources import code_of
from demo_project.bank.strategies import STRATEGIES, Kind, label_of
from tests.demo.runs import Rates, finished_run, rounds_of

pytestmark = pytest.mark.urls("demo_project.urls")

RATES: Rates = {
    ("hot", 2, "unprotected"): [5000, 5000, 5000],
    ("hot", 2, "optimistic"): [2000, 2100, 1900],
    ("hot", 2, "redis_lock"): [1500, 1600, 1500],
    ("hot", 2, "script"): [6000, 6000, 6000],
    ("hot", 10, "unprotected"): [5000, 5000, 5000],
    ("hot", 10, "optimistic"): [500, 510, 490],
    ("hot", 10, "redis_lock"): [1400, 1500, 1300],
    ("hot", 10, "script"): [6000, 6100, 5900],
    ("spread", 10, "redis_lock"): [4000, 4000, 4000],
}


@pytest.fixture
def charts() -> list[dict[str, Any]]:
    return charts_of(summarise_rounds(rounds_of(RATES)))


@pytest.fixture
def viewer(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("viewer"))
    return browser


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_code_that_is_shown_is_the_code_that_runs(name: str) -> None:
    for piece, markup in zip(STRATEGIES[name].shown, code_of(name), strict=True):
        source = piece if isinstance(piece, str) else inspect.getsource(piece)
        assert source.strip() == text_of(markup).strip()
        assert 'class="hl-' in markup
        assert "style=" not in markup


def test_a_chart_has_the_medians_the_ranges_and_the_limit(charts: list[dict[str, Any]]) -> None:
    hot = drawings_of(charts)[0]
    assert [2, 10] == hot["workers"]
    series = {line["label"].partition(" (")[0]: line for line in hot["series"]}
    assert [2000, 500] == series[label_of("optimistic")]["data"]
    assert [(1900, 2100), (490, 510)] == series[label_of("optimistic")]["ranges"]
    assert ["One Lua script"] == [label for label, line in series.items() if line["limit"]]
    assert "script" in STRATEGIES
    assert STRATEGIES["script"].kind is Kind.LIMIT


def test_the_page_has_a_table_and_words_for_every_chart(viewer: Client) -> None:
    run = finished_run(RATES)
    page = viewer.get(reverse("admin:bank_comparison_change", args=[run.pk])).content.decode()
    assert 2 * len(METRICS) == page.count("<canvas ")
    assert 2 * len(METRICS) == page.count('role="img" aria-label="')
    assert 2 * len(METRICS) == len(re.findall(r"<details><summary>Table", page))
    assert f"{label_of('optimistic')} stops being better between 2 and 10 workers." in page
    assert "2,000 ±5%" in page
    for line in verdict_of(summarise_rounds(run.measurements.all())):
        assert html.escape(line.text) in page
    # The verdict comes first, and one chart.
    places = [page.index(mark) for mark in ('id="findings-title"', 'id="title-1"', 'id="money"')]
    assert sorted(places) == places
    for fact in ("Valkey 9.9.9", "2 x Some Chip"):
        assert fact in page
    # A strict policy forbids these.
    assert not re.search(r"<script(?! (src|id)=)|style=\"|\bon\w+=\"", page.partition("</head>")[2])


def test_strategies_are_explained_before_anything_was_measured(viewer: Client) -> None:
    page = viewer.get(reverse("admin:bank_comparison_changelist")).content.decode()
    for name in STRATEGIES:
        assert html.escape(STRATEGIES[name].text) in page
    assert "The database runs one at a time" in page
    assert "No comparison has finished yet." in page
    assert "<canvas" not in page


def test_the_json_export_has_parameters_machine_findings_and_every_round(viewer: Client) -> None:
    run = finished_run(RATES)
    response = viewer.get(reverse("admin:bank_comparison_json", args=[run.pk]))
    assert f'filename="comparison-{run.pk}.json"' in response.headers["Content-Disposition"]
    report = response.json()
    assert run.parameters == report["parameters"]
    assert run.versions == report["versions"]
    assert len(RATES) * 3 == len(report["measurements"])
    assert len(RATES) == len(report["medians"])
    assert 2000 == next(
        row["transfers_per_second"]
        for row in report["medians"]
        if (row["workers"], row["strategy"]) == (2, "optimistic")
    )
    (crossing,) = [row for row in report["crossovers"] if row["rival"] == "redis_lock"]
    assert [2, 10] == crossing["stops_being_better_between"]
    assert ([2], [10]) == (crossing["better"], crossing["rival_better"])
    assert any("against redis_lock packed" in row["text"] for row in report["findings"])


def test_the_csv_export_has_a_line_for_every_round(viewer: Client) -> None:
    run = finished_run(RATES)
    response = viewer.get(reverse("admin:bank_comparison_csv", args=[run.pk]))
    assert response.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert len(RATES) * 3 == len(rows)
    assert ("hot", "2", "unprotected", "1", "5000.0", "True") == tuple(
        rows[0][name]
        for name in (
            "accounts",
            "workers",
            "strategy",
            "round",
            "transfers_per_second",
            "conserved",
        )
    )


@pytest.mark.parametrize("what", ["json", "csv", "progress"])
def test_figures_are_for_those_who_may_view_them(what: str, db: None) -> None:
    run = finished_run({})
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger", is_staff=True))
    address = reverse(f"admin:bank_comparison_{what}", args=[run.pk])
    assert stranger.get(address).status_code == 403
    assert Client().get(address).status_code == 302
    assert Comparison.objects.count() == 1
