"""Table 11.2 of the book within a run: measured by real processes, beside the book's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis
from django.core.management.color import no_style
from django.test import Client
from django.urls import reverse

from demo_project.bank.compare import book, runner
from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.progress import progress_of
from demo_project.bank.compare.runner import for_this_server
from demo_project.bank.models import Comparison
from demo_project.bank.report import report
from demo_project.bank.server import CannotMeasure
from redis_locks.testing import held
from tests.demo.runs import finished_run
from tests.support.benchmark import (
    NAME,
    TWO_COMMANDS,
    Figures,
    compare,
    compares_and_deletes,
    our_keys,
    subjects,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("demo_project.urls")]

PLAN = Plan(0.05, (1,), ("script",), ("hot",), rounds=2, table_seconds=0.05)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes, where it matters how they are started and not how many they are."""
    monkeypatch.setattr(book, "CLIENTS", (1, 2))


@pytest.fixture(autouse=True)
def forgotten(client: redis.Redis) -> Iterator[None]:
    """The benchmark's fencing token, which stays for an hour, is all that is left of it."""
    yield
    client.delete(our_keys(NAME).lock)
    assert [] == client.keys(f"*{NAME}*")


def table(
    seconds: float, rounds: Sequence[Sequence[int]] = ((30, 33, 37), (60, 66, 74), (90, 100, 110))
) -> list[dict[str, Any]]:
    """Rows of a run of so many seconds: the original lock, the Lua lock and ours, by round."""
    found = {
        (lock, 2): Figures(sum(each) + 50, sum(each), 1.0, 0.001, 2.0, [*each])
        for lock, each in zip(("original", "lua", "redis_locks"), rounds, strict=True)
    }
    return [row.__dict__ for row in compare(found, seconds)]


@pytest.mark.ci
def test_a_run_measures_the_table_first_and_counts_its_turns(few: None) -> None:
    seen: list[str] = []
    run = runner.run(
        PLAN, on_measurement=lambda: seen.append(progress_of(Comparison.objects.get())["text"])
    )
    turns = [(lock, clients) for clients in (1, 2) for lock in PLAN.table_locks]
    assert turns == [(row["lock"], row["clients"]) for row in run.book_table]
    for row in run.book_table:
        assert 0 < row["acquires"] <= row["tries"]
        assert PLAN.rounds == len(row["rounds"])
        assert row["acquires"] == sum(row["rounds"])
    assert len(PLAN) == len(seen) == run.measured == run.planned == PLAN.rounds * (len(turns) + 1)
    assert "Table 11.2: Lua, of the book, 1 process" in seen[0]
    assert f"round 1 of {PLAN.rounds}: One Lua script" in seen[PLAN.rounds * len(turns) - 1]


def test_the_fourth_lock_is_measured_where_the_server_has_its_command(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = bool(compares_and_deletes(client))
    assert has == (TWO_COMMANDS in for_this_server(PLAN).table_locks)
    assert Plan() == for_this_server(Plan())  # without the table, nobody is asked
    monkeypatch.setattr(subjects.book_locks, "compares_and_deletes", lambda _: "DELEX")
    assert book.LOCKS == for_this_server(PLAN).table_locks
    monkeypatch.setattr(subjects.book_locks, "compares_and_deletes", lambda _: "")
    assert book.ON_ANY_SERVER == for_this_server(PLAN).table_locks


def test_another_benchmark_on_the_server_is_in_the_way(few: None) -> None:
    with held(NAME), pytest.raises(CannotMeasure, match="Another benchmark"):
        runner.run(PLAN)
    run = Comparison.objects.get()
    assert "failed" == run.status
    assert "Another benchmark" in run.error


def test_a_change_that_the_rounds_do_not_show_is_not_stated() -> None:
    _, lua, ours = book.rows_of(table(1, [(30, 33, 37), (90, 20, 60), (31, 32, 36)]))
    assert (("not decided", "?"), ("no difference", "=")) == (
        (lua.told, lua.cells[5]),
        (ours.told, ours.cells[5]),
    )
    _, slower, _ = book.rows_of(table(1, [(60, 66, 74), (30, 33, 37), (1, 1, 1)]))
    assert ("original better, -50%", "-50%") == (slower.told, slower.cells[5])


def test_the_table_stands_beside_the_book_s_figures(admin_client: Client) -> None:
    run = finished_run({("hot", 2, "script"): [100]}, book_table=table(0.5))
    page, exported = (
        admin_client.get(reverse(f"admin:bank_comparison_{view}", args=[run.pk]))
        for view in ("change", "json")
    )
    assert run.book_table == exported.json()["table_11_2"]
    rows = page.content.decode().partition('id="book-table"')[2].partition("</table>")[0]
    for cell in ("Lua, of the book", "5,000", "42,199", "better, +100%", "+87%", "-"):
        assert f">{cell}<" in rows
    lines = list(report(run, no_style()))
    assert "lua 2 5,000 4,000 ±10% +100% 50,404 42,199 +87%" == " ".join(lines[3].split())
    assert max(map(len, lines)) <= 80
    # The server of that run had no command for the fourth lock.
    for shown in (page.content.decode(), " ".join(" ".join(lines).split())):
        assert book.NO_FOURTH_LOCK in shown
