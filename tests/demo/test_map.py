"""The map: a grid that real processes fill, its picture, its advice, and the run that can be stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest
import redis
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from demo_project.bank.map.advice import answers_of
from demo_project.bank.map.picture import Picture, Side, picture_of
from demo_project.bank.map.survey import CONTENDERS, Survey
from demo_project.bank.map.surveyor import MAPS
from demo_project.bank.models import Map, MapMeasurement
from demo_project.bank.recorder import LOCK_NAME, Cancelled
from redis_locks import Lock
from tests.demo.runs import figures, finished_run, wait_until_finished
from tests.elsewhere import held

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.timeout(240),
]

ONE_CELL = Survey(workers=1, accounts=2, latency_ms=0, work_ms=0, seconds=0.05, rounds=1)
FOUR_CELLS = Survey(workers=2, accounts=10, latency_ms=0, work_ms=3, seconds=0.05)


def rows_of(
    rates: dict[tuple[float, int, str], Sequence[float]], latency_ms: float = 0
) -> list[MapMeasurement]:
    """Unsaved measurements with these transfers per second in each round, by work, accounts and strategy."""
    return [
        MapMeasurement(
            latency_ms=latency_ms,
            work_ms=work,
            accounts=accounts,
            strategy=strategy,
            workers=2,
            round=number,
            **figures(transfers_per_second=rate, round_trips=2.0 + work),
        )
        for (work, accounts, strategy), found in rates.items()
        for number, rate in enumerate(found, 1)
    ]


def drawn() -> Picture:
    return picture_of(
        FOUR_CELLS,
        rows_of(
            {
                (0, 2, "redis_lock"): (100, 110, 120),
                (0, 2, "optimistic"): (190, 200, 230),
                (0, 2, "watch_packed"): (210, 220, 240),
                (0, 10, "redis_lock"): (100, 105, 110),
                (0, 10, "optimistic"): (110, 100, 120),
                (3, 2, "redis_lock"): (400, 410, 420),
                (3, 2, "optimistic"): (100, 110, 120),
                (3, 10, "redis_lock"): (400, 410),
                (3, 10, "optimistic"): (100, 110),
            }
        ),
    )


def test_the_grid_goes_from_the_least_to_what_the_sliders_say() -> None:
    survey = Survey(accounts=50, latency_ms=2, work_ms=20)
    assert (2, 10, 50) == survey.all_accounts
    assert (0, 5, 20) == survey.all_work_ms
    assert (0, 2) == survey.all_latency_ms
    spots = list(survey.spots())
    assert len(survey) == len(spots) == len(set(spots)) == 3 * 3 * 2 * 3 * len(CONTENDERS)
    assert survey == Survey.from_dict(json.loads(json.dumps(survey.as_dict())))
    with pytest.raises(ValueError, match="latency_ms must be from 0 to 5, not 6"):
        Survey(latency_ms=6)


def test_a_cell_says_who_is_ahead_and_how_far_and_noise_is_no_difference() -> None:
    picture = drawn()
    cells = {(cell.work_ms, cell.accounts): cell for cell in picture.cells}
    assert (Side.OPTIMISTIC, 2, "watch_packed 2.0") == (
        cells[0, 2].side,
        cells[0, 2].strength,
        cells[0, 2].text,
    )
    assert (Side.NONE, "no difference") == (cells[0, 10].side, cells[0, 10].text)
    assert (Side.LOCK, 3, "redis_lock 3.7") == (
        cells[3, 2].side,
        cells[3, 2].strength,
        cells[3, 2].text,
    )
    # Two rounds tell nothing.
    assert Side.OPEN is cells[3, 10].side
    assert pytest.approx(100 * 10 / 110) == cells[0, 2].noise
    assert (
        "Of 4 cells: locks are ahead in 1, optimistic transactions are ahead in 1, "
        "there is no difference beyond noise in 1, too few rounds were measured in 1."
    ) == picture.verdict


def test_cells_that_show_the_same_margin_have_the_same_colour() -> None:
    ahead = {2: 146, 10: 154}
    rates = {(0, count, "optimistic"): (rate,) * 3 for count, rate in ahead.items()}
    rates |= {(0, count, "redis_lock"): (100,) * 3 for count in ahead}
    two, ten, *_ = picture_of(FOUR_CELLS, rows_of(rates)).cells
    assert ("1.5", 2) == (two.times, two.strength) == (ten.times, ten.strength)


def test_a_map_says_how_many_round_trips_were_counted() -> None:
    (grid,) = drawn().grids
    assert (
        "Round trips for a transfer: redis_lock packed 2.0 to 5.0, optimistic 2.0 to 5.0, WATCH packed 2.0."
    ) == grid.round_trips
    assert "" == picture_of(FOUR_CELLS, []).grids[0].round_trips


def test_the_cost_of_latency_is_told_with_the_round_trips_that_were_counted() -> None:
    far = replace(FOUR_CELLS, latency_ms=1)
    near_rows = rows_of({(0, 10, name): (100, 110, 120) for name in CONTENDERS})
    far_rows = rows_of({(0, 10, name): (50, 55, 60) for name in CONTENDERS}, latency_ms=1)
    latency, *_ = answers_of(picture_of(far, [*near_rows, *far_rows]))
    told = "redis_lock packed from 110 to 55 transfers/s (2.0 round trips each)"
    assert told in latency.figures


def test_five_questions_are_answered_from_the_run_and_from_the_latest_comparison() -> None:
    finished_run({("hot", 10, "rows_db"): (840, 850, 860), ("spread", 2, "rows_db"): (1, 2, 3)})
    answers = answers_of(drawn())
    assert 5 == len(answers)
    assert all(answer.general for answer in answers)
    _, conflicts, work, rows, late = (answer.figures for answer in answers)
    assert (
        "Between 2 accounts: WATCH packed is 2.0x as fast (WATCH packed 220, optimistic 200, redis_lock packed 110 "
        "transfers/s)"
    ) in conflicts
    assert "optimistic did the work 1.5 times for each transfer" in work
    assert "Rows: database locks 850" in rows
    assert "right to the cent in 25 of 25 measurements" in late
    assert "" == answers_of(picture_of(FOUR_CELLS, []))[1].figures


@pytest.mark.slow
def test_a_map_is_measured_through_the_page_and_can_be_read_again(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_project.bank.map.forms.SurveyForm.survey", lambda _: ONE_CELL)
    visitor = Client()
    assert "No map has been measured yet." in visitor.get(reverse("map:latest")).content.decode()
    sliders = {"workers": 1, "accounts": 2, "latency_ms": 0, "work_ms": 0}
    refused = visitor.post(reverse("map:start"), {**sliders, "workers": 11})
    assert 422 == refused.status_code
    with held(Lock(LOCK_NAME, label="somebody's run")):
        answer = visitor.post(reverse("map:start"), sliders, follow=True)
    assert "already running" in answer.content.decode()
    address = visitor.post(reverse("map:start"), sliders).headers["Location"]
    run = wait_until_finished(Map.objects.get().pk, Map)
    assert Map.Status.FINISHED == run.status, run.error
    assert set(CONTENDERS) == {row.strategy for row in run.measurements.all()}
    for row in run.measurements.all():
        assert row.transfers
        assert row.conserved
    page = visitor.get(address).content.decode()
    for shown in (str(run), "Which should I use?", "not yet known", "3 of 3 measurements"):
        assert shown in page
    assert page.count("<dt>") == 5
    assert "style=" not in page
    assert 204 == visitor.get(reverse("map:picture", args=[run.pk])).status_code
    assert not [*client.scan_iter("account:map-*")]


def test_a_run_that_is_under_way_fills_its_picture_and_can_be_stopped(client: redis.Redis) -> None:
    run = Map.objects.create(
        parameters=FOUR_CELLS.as_dict(), versions={"busy_percent": 90}, planned=36, measured=4
    )
    visitor = Client()
    page = visitor.get(reverse("map:latest")).content.decode()
    assert f'data-url="{reverse("map:picture", args=[run.pk])}"' in page
    assert "processors 90 % busy" in page
    part = visitor.get(reverse("map:picture", args=[run.pk])).content.decode()
    assert "4 of 36 measurements" in part
    visitor.post(reverse("map:stop", args=[run.pk]))
    run.refresh_from_db()
    assert "a visitor" == run.cancelled_by
    late = Map.objects.create(parameters=FOUR_CELLS.as_dict(), planned=36, status="finished")
    again = visitor.post(reverse("map:stop", args=[late.pk]), follow=True).content.decode()
    assert "has ended already" in again
    assert 404 == visitor.post(reverse("map:stop", args=[late.pk + 1])).status_code


def test_a_tab_that_follows_a_run_learns_that_its_process_has_died(client: redis.Redis) -> None:
    run = Map.objects.create(parameters=FOUR_CELLS.as_dict(), planned=36, seen=None)
    assert 204 == Client().get(reverse("map:picture", args=[run.pk])).status_code
    run.refresh_from_db()
    assert Map.Status.INTERRUPTED == run.status


@pytest.mark.slow
@pytest.mark.ci
def test_a_stopped_run_keeps_what_it_has_measured(client: redis.Redis) -> None:
    def stop() -> None:
        MAPS.cancel(Map.objects.get().pk, "somebody")

    with pytest.raises(Cancelled, match="Cancelled by somebody"):
        MAPS.run(FOUR_CELLS, on_measurement=stop)
    run = Map.objects.get()
    assert (Map.Status.CANCELLED, 1) == (run.status, run.measurements.count())
    assert not [*client.scan_iter("account:map-*")]


def test_a_proxy_that_does_not_start_is_said_by_the_command(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_project.bank.management.commands.map.bank_server", nullcontext)
    monkeypatch.setattr("demo_project.bank.proxy.START_SECONDS", 0.001)
    with pytest.raises(CommandError, match="Process proxy did not answer"):
        call_command("map")
    run = Map.objects.get()
    assert Map.Status.FAILED == run.status
    assert "did not answer" in run.error
