"""The comparison page: who may do what, what becomes of a run, its charts, words and exports."""

from __future__ import annotations

import csv
import html
import inspect
import io
import re
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse, reverse_lazy
from django.utils import timezone

from demo_project.bank.accounts import account_key, seed_accounts
from demo_project.bank.charts import charts_of, drawings_of
from demo_project.bank.compare import runner
from demo_project.bank.compare.cells import account_ids
from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.runner import LOCK_NAME
from demo_project.bank.compare.summaries import METRICS, summarise_rounds
from demo_project.bank.compare.verdict import verdict_of
from demo_project.bank.forms import ComparisonForm
from demo_project.bank.liveness import SILENCE_SECONDS, this_process
from demo_project.bank.management.commands.compare import add_plan_arguments, plan_from
from demo_project.bank.models import Comparison
from demo_project.bank.sources import code_of
from demo_project.bank.strategies import STRATEGIES, label_of
from redis_locks import Lock
from tests.demo.runs import Rates, finished_run, rounds_of, wait_until_finished
from tests.support.parties import held
from tests.support.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("demo_project.urls")]

FORM = {
    "strategies": ["redis_lock"],
    "accounts": ["hot", "spread"],
    "workers": "1",
    "seconds": "0.1",
    "rounds": "1",
    "table_seconds": "0",
}
LIST = reverse_lazy("admin:bank_comparison_changelist")
START = reverse_lazy("admin:bank_comparison_start")


@pytest.fixture
def staff(request: pytest.FixtureRequest) -> Client:
    """A staff member who may view, and start with the parameter True."""
    user = User.objects.create_user("staff", is_staff=True)
    names = ["view_comparison"] + ["add_comparison"] * getattr(request, "param", True)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    browser = Client()
    browser.force_login(user)
    return browser


def at(view: str, run: Comparison) -> str:
    return str(reverse_lazy(f"admin:bank_comparison_{view}", args=[run.pk]))


def page_of(staff: Client, url: str) -> str:
    return html.unescape(staff.get(url).content.decode())


@pytest.mark.parametrize("staff", [False], indirect=True)
def test_who_may_only_view_starts_and_cancels_nothing_and_others_see_nothing(staff: Client) -> None:
    alive = Comparison.objects.create(parameters={}, planned=40)
    assert "start-form" not in page_of(staff, LIST)
    assert "/login/" in Client().post(START).headers["Location"]
    for url in (START, at("cancel", alive)):
        assert 403 == staff.post(url, FORM).status_code
    figures = [at(view, alive) for view in ("json", "csv", "progress")]
    assert {200} == {staff.get(url).status_code for url in figures}
    User.objects.get().user_permissions.clear()
    assert {403} == {staff.get(url).status_code for url in figures}
    alive.refresh_from_db()
    assert "" == alive.cancelled_by
    assert 1 == Comparison.objects.count()


def test_the_link_of_a_run_makes_the_same_plan_again(staff: Client) -> None:
    plan = Plan(0.2, (3, 7), ("script",), ("hot",), rounds=2, table_seconds=0.1)
    run = finished_run({("hot", 3, "script"): [100]}, parameters=plan.as_dict())
    link = re.search(r'id="repeat" href="([^"]+)"', page_of(staff, at("change", run)))
    assert link
    form = ComparisonForm(QueryDict(link[1].partition("?")[2]))
    assert form.is_valid(), form.errors
    assert plan == form.plan()


def test_a_run_too_long_for_the_page_is_repeated_by_its_command(staff: Client) -> None:
    long = Plan(seconds=10, rounds=20)
    run = finished_run({("hot", 1, "script"): [100]}, parameters=long.as_dict())
    page = page_of(staff, at("change", run))
    assert 'id="repeat"' not in page
    command = re.search(r"<code>manage.py compare ([^<]+)", page)
    assert command
    parser = ArgumentParser()
    add_plan_arguments(parser, Plan())
    assert long == plan_from(vars(parser.parse_args(command[1].split())))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"seconds": "nan"}, {"seconds": "11"}, {"table_seconds": "11"}, {"rounds": "21"}),
        *({"workers": "some"}, {"workers": "2 2"}, {"workers": "21"}, {"strategies": ["hope"]}),
        {"seconds": "10", "rounds": "20", "workers": "1 2 3 4 5"},
    ],
)
def test_numbers_out_of_bounds_come_back_with_the_form(
    staff: Client, wrong: dict[str, Any]
) -> None:
    response = staff.post(START, FORM | wrong)
    assert 200 == response.status_code
    assert b"errorlist" in response.content
    assert not Comparison.objects.exists()


def test_a_start_runs_in_the_background_and_its_figures_are_shown(staff: Client) -> None:
    response = staff.post(START, FORM, follow=True)
    assert b"The comparison has started." in response.content
    run = wait_until_finished(Comparison.objects.get().pk)
    assert ("finished", "", 2, "staff") == (
        run.status,
        run.error,
        run.measured,
        str(run.started_by),
    )
    assert 'id="chart-data"' in page_of(staff, LIST)
    progress = staff.get(at("progress", run)).json()
    assert {"status": "finished", "measured": 2, "planned": 2}.items() <= progress.items()
    assert "redis_lock" in page_of(staff, at("change", run))


def test_a_second_start_is_told_who_holds_the_lock(staff: Client) -> None:
    with held(LOCK_NAME, label="somebody's run"):
        page = html.unescape(staff.post(START, FORM, follow=True).content.decode())
    assert "already running" in page
    assert "somebody's run" in page
    assert not Comparison.objects.exists()


DEAD = (
    {"seen": timezone.now() - timedelta(seconds=SILENCE_SECONDS + 1)},
    {"process": f"{this_process().rpartition(' ')[0]} {2**22 + 1}"},
)
"""A process that has been silent for too long, and one of this machine that is not there."""


@pytest.mark.parametrize("signs", DEAD, ids=["silent", "gone"])
def test_a_run_whose_process_died_is_interrupted_and_leaves_no_accounts(
    staff: Client, client: redis.Redis, signs: dict[str, Any]
) -> None:
    dead = Comparison.objects.create(parameters={}, planned=40, measured=3, **signs)
    left = account_ids(f"comparison-{dead.pk}", 2)
    seed_accounts(client, dict.fromkeys(left, 100))
    assert "Interrupted" in page_of(staff, LIST)
    dead.refresh_from_db()
    assert Comparison.Status.INTERRUPTED == dead.status
    assert "ended before" in dead.error
    assert not client.exists(*map(account_key, left))


def test_a_run_that_is_alive_stays_running_and_alone_whatever_server_it_measures(
    staff: Client,
) -> None:
    alive = Comparison.objects.create(
        parameters={}, planned=40, measured=3, process="elsewhere 4711"
    )
    assert "3 of 40 measurements" in page_of(staff, LIST)
    assert b"process elsewhere 4711" in staff.post(START, FORM, follow=True).content
    alive.refresh_from_db()
    assert Comparison.Status.RUNNING == alive.status


def start(client: redis.Redis, workers: int) -> Comparison:
    """A run that takes long, whose money moves."""
    pk = runner.start(Plan(10, (workers,), ("script",), ("hot",), rounds=1))
    first = account_key(account_ids(f"comparison-{pk}", 1)[0])
    until(lambda: client.hget(first, "money") not in (None, b"10000"), within=30)
    return Comparison.objects.get(pk=pk)


def test_a_run_is_cancelled_wherever_it_runs(staff: Client, client: redis.Redis) -> None:
    run = start(client, workers=2)
    assert 405 == staff.get(at("cancel", run)).status_code
    assert b"being cancelled" in staff.post(at("cancel", run), follow=True).content
    run = wait_until_finished(run.pk)
    assert ("cancelled", "Cancelled by staff.", 0) == (run.status, run.error, run.measured)
    # No worker is left that could bring the accounts back.
    assert not client.exists(*map(account_key, account_ids(f"comparison-{run.pk}", 2)))
    assert "staff cancelled" in page_of(staff, LIST)


@pytest.mark.ci
def test_a_run_whose_row_is_deleted_ends(client: redis.Redis) -> None:
    run = start(client, workers=1)
    accounts = account_ids(f"comparison-{run.pk}", 2)
    run.delete()
    with Lock(LOCK_NAME, wait=8):
        assert not Comparison.objects.exists()
        assert not client.exists(*map(account_key, accounts))


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
    page = admin_client.get(at("change", run)).content.decode()
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
    response = admin_client.get(at("json", run))
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
    response = admin_client.get(at("csv", finished_run(RATES)))
    assert response.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert len(RATES) * 3 == len(rows)
    first = {"accounts": "hot", "workers": "2", "strategy": "unprotected", "round": "1"}
    assert (first | {"transfers_per_second": "5000.0", "conserved": "True"}).items() <= rows[
        0
    ].items()
