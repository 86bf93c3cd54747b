"""The failover worker: three processes and one job, of which some die or fail."""

from __future__ import annotations

from functools import partial

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.failover import views
from demo_project.bank.failover.team import Team
from redis_locks import RunStatus
from redis_locks.testing.server import EmbeddedServer
from tests.support.waiting import until

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

wait_until = partial(until, within=100)


def worker_of(team: Team, attempt: int) -> str:
    """Who does the attempt, as soon as somebody does."""
    begins = f"begins attempt {attempt}"

    def found() -> list[str]:
        return [event.who for event in team.events() if event.text.startswith(begins)]

    wait_until(found)
    return found()[0]


@pytest.mark.ci
def test_a_job_that_fails_as_often_as_it_may_is_given_up(redis_server: EmbeddedServer) -> None:
    team = Team(redis_server.url, 1.0)
    try:
        for attempt in (1, 2, 3):
            team.do("fail", worker_of(team, attempt))
        wait_until(lambda: not team.is_at_work)
        assert ("exhausted", 3) == (team.status().state, team.status().attempts)
        assert "the message could not be sent" in (team.status().last_error or "")
        assert 3 == sum(event.text == "stops: AttemptsExhausted" for event in team.events())
    finally:
        team.end()


@pytest.mark.ci
def test_a_killed_worker_is_followed_and_everybody_gets_the_result(
    client: redis.Redis,
) -> None:
    visitor = Client()
    assert b"Start three workers" in visitor.get(reverse("failover:start_page")).content
    address = visitor.post(reverse("failover:start")).headers["Location"]
    name = address.split("/")[-2]
    team = views.TEAMS.find(name)
    assert team
    try:
        refused = visitor.post(reverse("failover:start"), follow=True)
        assert b"A team is at work" in refused.content
        first = worker_of(team, 1)
        assert b"Attempt 1 of 3 is under way." in visitor.get(address).content
        kill = reverse("failover:signal", args=[name, first, "kill"])
        assert 405 == visitor.get(kill).status_code
        visitor.post(kill)
        second = worker_of(team, 2)
        page = visitor.get(address).content
        assert b"Attempt 2 of 3 is under way." in page
        assert b"takes over, as the worker before has died" in page
        wait_until(lambda: not team.is_at_work)
        states = {member.who: member.state for member in team.workers()}
        assert {**dict.fromkeys(states, "ended"), first: "dead"} == states
        pid = next(member.pid for member in team.workers() if member.who == second)
        assert RunStatus(name, "done", 2, {"sent_by": pid, "attempt": 2}) == team.status()
        kinds = [event.kind for event in team.events()]
        assert (1, 1, 2) == tuple(kinds.count(kind) for kind in ("reacquired", "done", "ended"))
    finally:
        team.end()
    for wrong in ((name, "9", "kill"), ("x", "1", "kill")):
        assert 404 == visitor.post(reverse("failover:signal", args=wrong)).status_code
