"""Table 11.2 of the book within a run: measured by real processes, shown beside the book's figures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from demo_project.bank.compare import book
from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.progress import progress_of
from demo_project.bank.compare.runner import COMPARISONS
from demo_project.bank.models import Comparison
from demo_project.bank.recorder import Cancelled, CannotMeasure
from demo_project.bank.report import print_report
from redis_locks import Lock
from tests.demo.runs import finished_run
from tests.elsewhere import held
from tests.support.benchmark import NAME, SUBJECTS, Figures, compare, our_keys

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("demo_project.urls")]

PLAN = Plan(0.05, (1,), ("script",), ("hot",), rounds=1, table_seconds=0.05)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes, where it matters how they are started and not how many they are."""
    monkeypatch.setattr(book, "CLIENTS", (1, 2))


@pytest.fixture
def left(client: redis.Redis, forgotten: None) -> Iterator[None]:
    """No keys of the benchmark are there before, or are left."""
    yield
    assert set(client.keys(f"*{NAME}*")) <= {our_keys(NAME).lock}  # its fencing token


@pytest.fixture(autouse=True)
def forgotten(client: redis.Redis) -> Iterator[None]:
    """The fencing token of a benchmark that did not take place stays for an hour otherwise."""
    yield
    client.delete(our_keys(NAME).lock)


def table(seconds: float) -> list[dict[str, Any]]:
    """Rows as a run of so many seconds has them, in which the Lua lock is acquired twice as often."""
    acquires = {"original": 100, "lua": 200, "redis_locks": 300}
    found = {
        (lock, 2): Figures(count + 50, count, 1.0, 0.001, 2.0) for lock, count in acquires.items()
    }
    return [row.__dict__ for row in compare(found, seconds)]


@pytest.mark.ci
def test_a_run_measures_the_table_first_and_counts_its_turns(few: None, left: None) -> None:
    seen: list[str] = []

    def look() -> None:
        run = Comparison.objects.get()
        seen.append(progress_of(run)["text"])

    run = COMPARISONS.run(PLAN, on_measurement=look)
    turns = [(lock, clients) for clients in (1, 2) for lock in ("original", "lua", "redis_locks")]
    assert turns == [(row["lock"], row["clients"]) for row in run.book_table]
    assert all(0 < row["acquires"] <= row["tries"] for row in run.book_table)
    assert len(PLAN) == len(seen) == run.measured == run.planned == len(turns) + 1
    assert "Table 11.2: Lua, of the book, 1 process" in seen[0]
    assert "Table 11.2: redis_locks, 2 processes" in seen[4]
    assert "round 1 of 1: One Lua script" in seen[5]


def test_a_run_is_cancelled_while_it_measures_the_table(few: None, left: None) -> None:
    def cancel() -> None:
        COMPARISONS.cancel(Comparison.objects.get().pk, "somebody")

    with pytest.raises(Cancelled, match="by somebody"):
        COMPARISONS.run(PLAN, on_measurement=cancel)
    run = Comparison.objects.get()
    assert ("cancelled", 1, []) == (run.status, run.measured, run.book_table)


def test_another_benchmark_on_the_server_is_in_the_way(few: None) -> None:
    with held(Lock(NAME)), pytest.raises(CannotMeasure, match="Another benchmark"):
        COMPARISONS.run(PLAN)
    run = Comparison.objects.get()
    assert "failed" == run.status
    assert "Another benchmark" in run.error


def test_keys_of_somebody_else_are_not_touched(few: None, client: redis.Redis) -> None:
    (key,) = SUBJECTS["lua"].keys
    client.set(key, "precious")
    try:
        with pytest.raises(CannotMeasure, match=key.decode()):
            COMPARISONS.run(PLAN)
        assert b"precious" == client.get(key)
    finally:
        client.delete(key)
    assert "failed" == Comparison.objects.get().status


def test_counts_are_shown_as_in_ten_seconds_like_the_book_s() -> None:
    original, lua, ours = book.rows_of(table(seconds=0.5))
    assert ("3,000", "2,000", "+0%") == original.here
    assert ("30,085", "22,507", "+0%") == original.book
    assert ("5,000", "4,000", "+100%") == lua.here
    assert ("50,404", "42,199", "+87%") == lua.book
    assert ("+200%", ("", "", "")) == (ours.here[2], ours.book)


def test_a_row_of_a_lock_that_is_gone_can_still_be_read() -> None:
    (row,) = book.rows_of([{**table(1)[2], "lock": "retired"}])
    assert ("retired", "retired") == (row.key, row.label)


def test_the_page_has_the_table_beside_the_book_s_figures() -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("viewer"))
    run = finished_run({("hot", 2, "script"): [100]}, book_table=table(0.5))
    page = browser.get(reverse("admin:bank_comparison_change", args=[run.pk])).content.decode()
    rows = page.partition('id="book-table"')[2].partition("</table>")[0]
    assert 3 == rows.count('<th scope="row">')
    for cell in ("Lua, of the book", "5,000", "42,199", "+100%", "+87%", "-"):
        assert f">{cell}<" in rows
    exported = browser.get(reverse("admin:bank_comparison_json", args=[run.pk])).json()
    assert run.book_table == exported["table_11_2"]


def test_a_run_without_the_table_does_not_show_one() -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("viewer"))
    finished_run({("hot", 2, "script"): [100]})
    page = browser.get(reverse("admin:bank_comparison_changelist")).content.decode()
    assert "book-table" not in page


def test_the_terminal_has_the_small_print_of_rows_where_there_are_any() -> None:
    out = io.StringIO()
    print_report(out, finished_run({("hot", 2, "rows_db"): [100]}), color=False)
    said = " ".join(out.getvalue().split())
    assert "trips: round trips to Redis" in said
    assert "On SQLite, each transaction over rows begins with BEGIN IMMEDIATE" in said


def test_the_terminal_shows_the_table_in_80_columns() -> None:
    run = finished_run({("hot", 2, "script"): [100]}, book_table=table(0.005))
    out = io.StringIO()
    print_report(out, run, color=False)
    lines = out.getvalue().splitlines()
    assert 'Table 11.2 of "Redis in Action"' in lines[0]
    assert "lua 2 500,000 400,000 +100% 50,404 42,199 +87%" == " ".join(lines[3].split())
    assert max(map(len, lines)) <= 80


def test_the_factors_are_told_beside_the_book_s() -> None:
    assert [
        "In the book (Lua, of the book): +87 % with 2 clients, against the original lock.",
        "Here (Lua, of the book): +100 % with 2 clients, against the original lock.",
        "Here (redis_locks): +200 % with 2 clients, against the original lock.",
    ] == book.factors_of(table(10))
