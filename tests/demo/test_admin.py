"""The comparison page: who may do what, one run at a time, and what becomes of a run that died."""

from __future__ import annotations

import html
import re
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse_lazy
from django.utils import timezone

from demo_project.bank.accounts import account_key, seed_accounts
from demo_project.bank.compare import runner
from demo_project.bank.compare.cells import account_ids
from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.runner import LOCK_NAME
from demo_project.bank.forms import ComparisonForm
from demo_project.bank.liveness import SILENCE_SECONDS, this_process
from demo_project.bank.management.commands.compare import add_plan_arguments, plan_from
from demo_project.bank.models import Comparison
from redis_locks import Lock
from tests.demo.runs import finished_run, wait_until_finished
from tests.elsewhere import held
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
def test_who_may_only_view_starts_and_cancels_nothing(staff: Client) -> None:
    alive = Comparison.objects.create(parameters={}, planned=40)
    assert "/login/" in Client().post(START).headers["Location"]
    assert "start-form" not in page_of(staff, LIST)
    for url in (START, at("cancel", alive)):
        assert 403 == staff.post(url, FORM).status_code
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
        {"seconds": "nan"},
        {"workers": "some"},
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
    with held(Lock(LOCK_NAME, wait=0, label="somebody's run")):
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
