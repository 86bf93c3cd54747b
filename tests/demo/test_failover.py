"""The failover worker: three processes and one job, of which some die or fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.failover import views
from demo_project.bank.failover.team import Team
from redis_locks import RunStatus
from redis_locks.testing.server import EmbeddedServer

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

PATIENCE_SECONDS = 100


@pytest.fixture
def team(redis_server: EmbeddedServer) -> Iterator[Team]:
    found = Team(redis_server.url, 1.0)
    yield found
    found.end()


def wait_until(true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def worker_of(team: Team, attempt: int) -> str:
    """Who does the attempt, as soon as somebody does."""
    return str(
        wait_until(
            lambda: [
                event.who
                for event in team.events()
                if event.text.startswith(f"begins attempt {attempt}")
            ]
        )[0]
    )


@pytest.mark.ci
def test_a_killed_worker_is_followed_and_everybody_gets_the_result(team: Team) -> None:
    first = worker_of(team, 1)
    team.do("kill", first)
    second = worker_of(team, 2)
    assert first != second
    wait_until(lambda: not team.is_at_work)
    states = {member.who: member.state for member in team.workers()}
    assert "dead" == states.pop(first)
    assert {"ended"} == set(states.values())
    pid = next(member.pid for member in team.workers() if member.who == second)
    result = {"sent_by": pid, "attempt": 2}
    assert RunStatus(team.name, "done", 2, result) == team.status()
    kinds = [event.kind for event in team.events()]
    assert (1, 1, 2) == tuple(kinds.count(kind) for kind in ("reacquired", "done", "ended"))


@pytest.mark.ci
def test_a_job_that_fails_as_often_as_it_may_is_given_up(team: Team) -> None:
    for attempt in (1, 2, 3):
        team.do("fail", worker_of(team, attempt))
    wait_until(lambda: not team.is_at_work)
    assert ("exhausted", 3) == (team.status().state, team.status().attempts)
    assert "the message could not be sent" in (team.status().last_error or "")
    assert 3 == sum(event.text == "stops: AttemptsExhausted" for event in team.events())


@pytest.mark.ci
def test_the_page_starts_a_team_and_kills_who_works(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = Client()
    assert "Start three workers" in visitor.get(reverse("failover:start_page")).content.decode()
    address = visitor.post(reverse("failover:start")).headers["Location"]
    name = address.split("/")[-2]
    team = views.TEAMS.find(name)
    assert team
    try:
        refused = visitor.post(reverse("failover:start"), follow=True).content.decode()
        assert "A team is at work" in refused
        first = worker_of(team, 1)
        assert "Attempt 1 of 3 is under way." in visitor.get(address).content.decode()
        kill = reverse("failover:signal", args=[name, first, "kill"])
        assert 405 == visitor.get(kill).status_code
        visitor.post(kill)
        worker_of(team, 2)
        page = visitor.get(address).content.decode()
        assert "Attempt 2 of 3 is under way." in page
        assert "takes over, as the worker before has died" in page
    finally:
        team.end()
    assert 404 == visitor.post(reverse("failover:signal", args=[name, "9", "kill"])).status_code
    assert 404 == visitor.post(reverse("failover:signal", args=["x", "1", "kill"])).status_code
    lost = visitor.get(reverse("failover:team", args=["x"]), follow=True).content.decode()
    assert "has forgotten this team" in lost
