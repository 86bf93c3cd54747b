"""The comparison page: who may do what, one run at a time, and what becomes of a run that died."""

from __future__ import annotations

import html
import re
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
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

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("demo_project.urls")]

FORM = {
    "strategies": ["redis_lock"],
    "accounts": ["hot", "spread"],
    "workers": "1",
    "seconds": "0.1",
    "rounds": "1",
    "table_seconds": "0",
}
LIST = "admin:bank_comparison_changelist"
START = "admin:bank_comparison_start"
CANCEL = "admin:bank_comparison_cancel"


@pytest.fixture
def staff(request: pytest.FixtureRequest) -> Client:
    """A staff member who may view, and start with the parameter True."""
    user = User.objects.create_user("staff", is_staff=True)
    names = ["view_comparison"] + ["add_comparison"] * getattr(request, "param", True)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def other_run() -> Iterator[None]:
    with held(Lock(LOCK_NAME, wait=0, label="somebody's run")):
        yield


def test_anybody_else_is_sent_to_the_login() -> None:
    for url in (reverse(LIST), reverse(START)):
        response = Client().post(url)
        assert response.status_code == 302
        assert "/login/" in response.headers["Location"]


@pytest.mark.parametrize("staff", [False], indirect=True)
def test_without_the_add_permission_there_is_no_form_and_no_start(staff: Client) -> None:
    assert b"start-form" not in staff.get(reverse(LIST)).content
    assert staff.post(reverse(START), FORM).status_code == 403
    assert not Comparison.objects.exists()


def test_the_link_of_a_run_makes_the_same_plan_again(staff: Client) -> None:
    plan = Plan(
        seconds=0.2,
        workers=(3, 7),
        strategies=("script",),
        accounts=("hot",),
        rounds=2,
        table_seconds=0.1,
    )
    run = finished_run({("hot", 3, "script"): [100]}, parameters=plan.as_dict())
    page = staff.get(reverse("admin:bank_comparison_change", args=[run.pk])).content.decode()
    link = html.unescape(re.search(r'id="repeat" href="([^"]+)"', page)[1])  # type: ignore[index]
    form = ComparisonForm(QueryDict(link.partition("?")[2]))
    assert form.is_valid(), form.errors
    assert plan == form.plan()


def test_a_run_too_long_for_the_page_is_repeated_by_its_command(staff: Client) -> None:
    long = Plan(seconds=10, rounds=20)
    run = finished_run({("hot", 1, "script"): [100]}, parameters=long.as_dict())
    page = staff.get(reverse("admin:bank_comparison_change", args=[run.pk])).content.decode()
    assert 'id="repeat"' not in page
    command = html.unescape(re.search(r"<code>manage.py compare ([^<]+)", page)[1])  # type: ignore[index]
    parser = ArgumentParser()
    add_plan_arguments(parser, Plan())
    assert long == plan_from(vars(parser.parse_args(command.split())))


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": "nan"},
        {"workers": "2 2"},
        {"workers": "some"},
        {"seconds": "10", "rounds": "20", "workers": "1 2 3 4 5"},
    ],
)
def test_numbers_out_of_bounds_come_back_with_the_form(
    staff: Client, wrong: dict[str, Any]
) -> None:
    response = staff.post(reverse(START), FORM | wrong)
    assert response.status_code == 200
    assert b"errorlist" in response.content
    assert not Comparison.objects.exists()


def test_a_start_runs_in_the_background_and_its_figures_are_shown(staff: Client) -> None:
    response = staff.post(reverse(START), FORM, follow=True)
    assert b"The comparison has started." in response.content
    run = wait_until_finished(Comparison.objects.get().pk)
    assert (run.status, run.error, run.measured) == ("finished", "", 2)
    assert str(run.started_by) == "staff"
    page = staff.get(reverse(LIST)).content.decode()
    assert 'id="chart-data"' in page
    assert 'role="img"' in page
    progress = staff.get(reverse("admin:bank_comparison_progress", args=[run.pk])).json()
    assert progress == {
        "status": "finished",
        "measured": 2,
        "planned": 2,
        "seconds_left": None,
        "text": "2 of 2 measurements",
    }
    detail = staff.get(reverse("admin:bank_comparison_change", args=[run.pk])).content.decode()
    assert "redis_lock" in detail
    assert "Valkey" in detail or "Redis" in detail


def test_a_second_start_is_told_who_holds_the_lock(staff: Client, other_run: None) -> None:
    response = staff.post(reverse(START), FORM, follow=True)
    assert "already running" in response.content.decode()
    assert "somebody&#x27;s run" in response.content.decode()
    assert not Comparison.objects.exists()


DEAD = (
    {"seen": timezone.now() - timedelta(seconds=SILENCE_SECONDS + 1)},
    {"process": f"{this_process().rpartition(' ')[0]} {2**22 + 1}"},
)
"""A process that has been silent for too long, and one of this machine that is not there."""


@pytest.mark.parametrize("signs", DEAD, ids=["silent", "gone"])
def test_the_list_shows_a_run_whose_process_died_as_interrupted(
    staff: Client, signs: dict[str, Any]
) -> None:
    dead = Comparison.objects.create(parameters={}, planned=40, measured=3, **signs)
    assert "Interrupted" in staff.get(reverse(LIST)).content.decode()
    dead.refresh_from_db()
    assert dead.status == Comparison.Status.INTERRUPTED
    assert "ended before" in dead.error


def test_a_run_that_is_alive_stays_running_and_alone_whatever_server_it_measures(
    staff: Client,
) -> None:
    alive = Comparison.objects.create(
        parameters={}, planned=40, measured=3, process="elsewhere 4711"
    )
    assert b"3 of 40 measurements" in staff.get(reverse(LIST)).content
    assert (
        "process elsewhere 4711" in staff.post(reverse(START), FORM, follow=True).content.decode()
    )
    alive.refresh_from_db()
    assert alive.status == Comparison.Status.RUNNING


def test_a_run_that_died_leaves_no_accounts_behind(staff: Client, client: redis.Redis) -> None:
    dead = Comparison.objects.create(parameters={}, planned=40, measured=3, seen=None)
    left = account_ids(f"comparison-{dead.pk}", 2)
    seed_accounts(client, dict.fromkeys(left, 100))
    staff.get(reverse(LIST))
    assert not client.exists(*map(account_key, left))


def test_a_run_is_cancelled_wherever_it_runs(staff: Client, client: redis.Redis) -> None:
    plan = Plan(seconds=10, workers=(2,), accounts=("hot",), strategies=("script",), rounds=1)
    pk = runner.start(plan)
    wait_until_money_moves(client, pk)
    page = staff.post(reverse(CANCEL, args=[pk]), follow=True).content.decode()
    assert "being cancelled" in page
    run = wait_until_finished(pk)
    assert (run.status, run.error, run.measured) == ("cancelled", "Cancelled by staff.", 0)
    # No worker is left that could bring the accounts back.
    assert not client.exists(*map(account_key, account_ids(f"comparison-{pk}", 2)))
    assert "staff cancelled" in staff.get(reverse(LIST)).content.decode()


@pytest.mark.ci
def test_a_run_whose_row_is_deleted_ends(staff: Client, client: redis.Redis) -> None:
    plan = Plan(seconds=10, workers=(1,), accounts=("hot",), strategies=("script",), rounds=1)
    pk = runner.start(plan)
    wait_until_money_moves(client, pk)
    Comparison.objects.get(pk=pk).delete()
    free = Lock(LOCK_NAME).acquire(wait=8)
    assert free is not None
    free.release()
    assert not Comparison.objects.exists()
    assert not client.exists(*map(account_key, account_ids(f"comparison-{pk}", 2)))


def wait_until_money_moves(client: redis.Redis, pk: int) -> None:
    first = account_key(account_ids(f"comparison-{pk}", 1)[0])
    deadline = time.monotonic() + 30
    while client.hget(first, "money") in (None, b"10000"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_cancelling_is_for_those_who_may_start_a_run_and_by_post_only(
    staff: Client,
) -> None:
    alive = Comparison.objects.create(parameters={}, planned=40)
    assert staff.get(reverse(CANCEL, args=[alive.pk])).status_code == 405
    User.objects.get().user_permissions.remove(Permission.objects.get(codename="add_comparison"))
    assert staff.post(reverse(CANCEL, args=[alive.pk])).status_code == 403
    alive.refresh_from_db()
    assert alive.cancelled_by == ""
