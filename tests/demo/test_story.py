"""The story of a run: the code as it runs, charts with tables and words, exports."""

from __future__ import annotations

import csv
import html
import inspect
import io
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from demo_project.bank.charts import charts_of, drawings_of
from demo_project.bank.compare.summaries import METRICS, summarise_rounds
from demo_project.bank.compare.verdict import verdict_of
from demo_project.bank.models import Comparison
from demo_project.bank.sources import code_of
from demo_project.bank.strategies import STRATEGIES, label_of
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


def address(view: str, run: Comparison) -> str:
    return reverse(f"admin:bank_comparison_{view}", args=[run.pk])


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_code_that_is_shown_is_the_code_that_runs(name: str) -> None:
    for piece, markup in zip(STRATEGIES[name].shown, code_of(name), strict=True):
        source = piece if isinstance(piece, str) else inspect.getsource(piece)
        assert source.strip() == text_of(markup).strip()
        assert 'class="hl-' in markup
        assert "style=" not in markup


def test_a_chart_has_the_medians_the_ranges_and_the_limit() -> None:
    hot = drawings_of(charts_of(summarise_rounds(rounds_of(RATES))))[0]
    assert [2, 10] == hot["workers"]
    series = {line["label"].partition(" (")[0]: line for line in hot["series"]}
    assert [2000, 500] == series[label_of("optimistic")]["data"]
    assert [(1900, 2100), (490, 510)] == series[label_of("optimistic")]["ranges"]
    assert ["One Lua script"] == [label for label, line in series.items() if line["limit"]]


def test_the_page_has_a_table_and_words_for_every_chart(admin_client: Client) -> None:
    run = finished_run(RATES)
    page = admin_client.get(address("change", run)).content.decode()
    for each in ("<canvas ", 'role="img" aria-label="', "<details><summary>Table"):
        assert 2 * len(METRICS) == page.count(each)
    assert f"{label_of('optimistic')} stops being better between 2 and 10 workers." in page
    assert "2,000 ±5%" in page
    for line in verdict_of(summarise_rounds(run.measurements.all())):
        assert html.escape(line.text) in page
    assert "Valkey 9.9.9" in page
    # A strict policy forbids these.
    assert not re.search(r"<script(?! (src|id)=)|style=\"|\bon\w+=\"", page.partition("</head>")[2])


def test_strategies_are_explained_before_anything_was_measured(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:bank_comparison_changelist")).content.decode()
    for strategy in STRATEGIES.values():
        assert html.escape(strategy.text) in page
    assert "No comparison has finished yet." in page
    assert "<canvas" not in page


def test_the_json_export_has_parameters_machine_findings_and_every_round(
    admin_client: Client,
) -> None:
    run = finished_run(RATES)
    response = admin_client.get(address("json", run))
    assert f'filename="comparison-{run.pk}.json"' in response.headers["Content-Disposition"]
    report = response.json()
    assert (run.parameters, run.versions) == (report["parameters"], report["versions"])
    assert len(RATES) * 3 == len(report["measurements"])
    medians = {(row["workers"], row["strategy"]): row for row in report["medians"]}
    assert 2000 == medians[2, "optimistic"]["transfers_per_second"]
    (crossing,) = [row for row in report["crossovers"] if row["rival"] == "redis_lock"]
    assert [2, 10] == crossing["stops_being_better_between"]
    assert any("against redis_lock packed" in row["text"] for row in report["findings"])


def test_the_csv_export_has_a_line_for_every_round(admin_client: Client) -> None:
    response = admin_client.get(address("csv", finished_run(RATES)))
    assert response.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert len(RATES) * 3 == len(rows)
    first = {"accounts": "hot", "workers": "2", "strategy": "unprotected", "round": "1"}
    assert (first | {"transfers_per_second": "5000.0", "conserved": "True"}).items() <= rows[
        0
    ].items()


@pytest.mark.parametrize("what", ["json", "csv", "progress"])
def test_figures_are_for_those_who_may_view_them(what: str, db: None) -> None:
    url = address(what, finished_run({}))
    stranger = Client()
    assert 302 == stranger.get(url).status_code
    stranger.force_login(User.objects.create_user("stranger", is_staff=True))
    assert 403 == stranger.get(url).status_code
