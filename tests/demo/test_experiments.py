"""The experiments: what lost replies, killed and frozen holders do to money and ledgers."""

from __future__ import annotations

import threading
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.background import LOCK, start_experiment
from demo_project.bank.ledger.entries import Entry
from demo_project.bank.ledger.office import run_ledger
from demo_project.bank.ledger.reconciliation import Operation, Report
from demo_project.bank.problems.drawing import verdict_of
from demo_project.bank.problems.experiment import PROBLEMS, Course, run_problem
from demo_project.bank.proxy import proxy_for
from redis_locks import inspection
from tests.servers.tls import HOST, Certificates, with_terminator
from tests.support.parties import held
from tests.support.waiting import until

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

OVERDRAWN = "Overdrawn by 30.00: both withdrew. A was told after its withdrawal."
REFUSED = "Every cent is right: the server refused A's late withdrawal, and A was told."
RIGHT = "Every cent is right."


@pytest.mark.ci
@pytest.mark.parametrize(
    ("problem", "book", "ours"),
    [
        ("freeze", OVERDRAWN, REFUSED),
        ("lease", OVERDRAWN, RIGHT),
        (
            "kill",
            f"{RIGHT} B could not see who holds the lock, and went on when the lease had ended.",
            f"{RIGHT} B saw who holds the lock, and went on when the lease had ended.",
        ),
        ("cut", RIGHT, RIGHT),
        (
            "reply",
            "The money is right, but A saw an error: it cannot know that its withdrawal was made.",
            RIGHT,
        ),
    ],
)
def test_what_becomes_of_the_money_and_who_is_told(
    client: redis.Redis, problem: str, book: str, ours: str
) -> None:
    theirs, redis_lock = run_problem(client, problem)
    assert (book, ours) == (verdict_of(theirs), verdict_of(redis_lock)), (theirs, redis_lock)
    assert [not book.startswith("Overdrawn"), True] == [theirs.is_right, redis_lock.is_right]
    assert not [*client.scan_iter("account:problem-*")]
    # Two are seen to hold the lock only where both believed it: a frozen holder, and one without a
    # renewal.
    both = [problem in {"freeze", "lease"}, problem == "freeze"]
    assert both == [are_seen_together(course) for course in (theirs, redis_lock)]
    if problem == "reply":
        for course in (theirs, redis_lock):
            wrote, lost = (moment_of(course, "A", kind) for kind in ("wrote", "lost"))
            assert wrote == lost <= moment_of(course, "B", "holds")


def are_seen_together(course: Course) -> bool:
    """Whether the page draws two holders beside each other."""
    ends = min(moment_of(course, "A", kind) for kind in ("released", "told", "killed"))
    return ends > moment_of(course, "B", "holds")


def moment_of(course: Course, who: str, kind: str) -> float:
    """When somebody did this; infinity if never."""
    found = (event.at for event in course.events if (event.who, event.kind) == (who, kind))
    return next(found, inf)


@pytest.mark.ci
def test_a_problem_is_started_on_the_page_and_shown_on_two_timelines(client: redis.Redis) -> None:
    visitor = Client()
    page = visitor.get(reverse("problems:all")).content.decode()
    for problem in PROBLEMS.values():
        assert problem.title in page
    start = reverse("problems:start", args=["cut"])
    address = visitor.post(start).headers["Location"]
    until(lambda: b"under way" not in visitor.get(address).content, within=100)
    page = visitor.get(address).content.decode()
    assert 2 == page.count("<svg ") == page.count("loses its connections")
    assert 404 == visitor.post(reverse("problems:start", args=["hope"])).status_code


def test_a_proxy_reaches_a_server_behind_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with with_terminator(certificates) as tls:
        server = f"rediss://{HOST}:{tls.port}/0?{urlencode(certificates.options())}"
        with proxy_for(server) as (proxy, url):
            client = redis.Redis.from_url(url, retry=None)
            pipe = client.pipeline(transaction=False)
            for _ in range(40):
                pipe.echo("x" * 100_000)
            assert {100_000} == {len(reply) for reply in pipe.execute()}
            proxy.lose_replies(b"INCR")
            with pytest.raises(redis.ConnectionError):
                client.incr("proxied")
            assert b"1" == client.get("proxied")


SOUND = Report(
    way="redis_lock",
    operations=[
        Operation("#1", "A", "B", 30, 1, is_acknowledged=True),
        Operation("#2", "B", "A", 10, 4),
        Operation("#3", "B", "A", 5, 4),
    ],
    entries=[Entry("#1", "A", "B", 30, 7), Entry("#2", "B", "A", 10, 8)],
    before={"A": 100, "B": 100},
    after={"A": 80, "B": 120},
    replies_lost=2,
    killed=1,
    seconds=1.0,
)
FIRST, SECOND = SOUND.entries


@pytest.mark.ci
def test_each_acknowledged_transfer_is_in_the_ledger_once_whatever_fails(
    client: redis.Redis,
) -> None:
    seen: list[dict[str, tuple[int, int]]] = []
    ours, marked, theirs = reports = run_ledger(client, 40, seen.append)
    ways = ["redis_lock", "marked", "transaction"]
    assert ways == [report.way for report in reports] == list(seen[-1])
    # The operation id makes the difference: with it, each transfer is there once, with a lock or
    # without.
    for once in (ours, marked):
        assert [] == once.faults
        for operation in once.operations:
            assert once.times[operation.id] in ({1} if operation.is_acknowledged else {0, 1})
        assert once.booked == once.ordered > 0
    assert all(entry.token for entry in ours.entries)
    for report in reports:
        assert (40, 3) == (len(report.operations), report.killed)
        assert report.replies_lost > 5
        assert report.attempts > 40
    # The same faults, and without an id a transaction repeats what it has done.
    assert theirs.duplicates
    assert theirs.booked > theirs.ordered
    assert not theirs.is_right
    assert not [*client.scan_iter("account:ledger-*")]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"entries": [FIRST, SECOND, replace(FIRST, token=9)]}, "#1 is in the ledger 2 times."),
        ({"entries": [SECOND]}, "#1 was acknowledged, and is not in the ledger."),
        (
            {"entries": [FIRST, SECOND, Entry("#4", "A", "B", 1, 9)]},
            "#4 is in the ledger, and nobody asked for it.",
        ),
        ({"after": {"A": 81, "B": 120}}, "Money was lost or made up."),
        ({"after": {"A": 79, "B": 121}}, "Account A shows 0.79 instead of 0.80."),
        (
            {"entries": [replace(FIRST, token=9), SECOND]},
            "#2 has an older fencing token than the entry before it.",
        ),
    ],
)
def test_what_does_not_match_is_found(changes: dict[str, Any], fault: str) -> None:
    assert SOUND.is_right
    report = replace(SOUND, **changes)
    assert not report.is_right
    assert fault in report.faults


def test_the_page_runs_it_and_shows_both_ledgers(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(
        SOUND, way="transaction", entries=[FIRST, FIRST, SECOND], after={"A": 50, "B": 150}
    )
    monkeypatch.setattr(
        "demo_project.bank.ledger.views.run_ledger", lambda *_, **__: [SOUND, wrong]
    )
    visitor = Client()
    with held(LOCK, label="somebody's experiment"):
        refused = visitor.post(reverse("ledger:start"), follow=True)
    assert b"Another experiment is under way" in refused.content
    address = visitor.post(reverse("ledger:start")).headers["Location"]
    until(lambda: b"Under way" not in visitor.get(address).content, within=50)
    page = visitor.get(address).content.decode()
    for shown in ("2 of 3, each once", "1 duplicate</p>", "0.70 was moved instead of 0.40."):
        assert shown in page
    assert 6 == page.count("<rect")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_that_was_stopped_is_not_under_way_for_ever(client: redis.Redis) -> None:
    def stopped(_show: object) -> dict[str, object]:
        raise NotImplementedError  # as abruptly as a process ends

    run_id = start_experiment(client, "ledger", stopped)
    # It ends after its lock is released. Its error is to be this test's, not that of the next one.
    for thread in threading.enumerate():
        if thread.name == "experiment":
            thread.join(10)
    assert inspection.lock(LOCK) is None
    page = Client().get(reverse("ledger:run", args=[run_id])).content.decode()
    assert "It was stopped before its end." in page
