"""Crews of real processes: three tellers at a time, and a job that workers take over in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.failover.team import Team
from demo_project.bank.failover.views import TEAMS
from demo_project.bank.tellers.branch import SHOWN_SECONDS, TELLERS, Branch, Look
from demo_project.bank.tellers.views import BRANCHES
from redis_locks import RunStatus
from redis_locks.testing.server import EmbeddedServer
from tests.support.waiting import until
from tests.support.world import existing

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

wait_until = partial(until, within=100)


@pytest.fixture
def branch(client: redis.Redis, redis_server: EmbeddedServer) -> Iterator[Branch]:
    made = Branch(client, redis_server.url, customers=25, seconds=0.3)
    yield made
    made.end()
    wait_until(lambda: not made.is_at_work)


def in_state(look: Look, state: str) -> list[str]:
    return [teller.who for teller in look.tellers if teller.state == state]


@pytest.mark.ci
def test_three_tellers_at_a_time_serve_all_customers_though_one_crashes(branch: Branch) -> None:
    wait_until(lambda: len(in_state(branch.look(), "serving")) == 3)
    wait_until(lambda: len(in_state(branch.look(), "waiting")) == 2)
    lock = existing(branch.name)
    # The page shows the product's own semaphore.
    assert {f"teller {who}" for who in TELLERS} >= {holder.label for holder in lock.holders}
    assert {"permit:3"} == {party.mode for party in (*lock.holders, *lock.waiters)}
    (crashed, *_) = in_state(branch.look(), "serving")
    branch.kill(crashed)
    (teller,) = (each for each in branch.look().tellers if each.who == crashed)
    assert "crashed" == teller.state
    if teller.ends:  # else a slow machine has let its lease end already
        wait_until(lambda: branch.strips()[crashed])  # that it held may be heard later
        *_, last = branch.strips()[crashed]
        assert last.crashed
        assert float(last.x) + float(last.width) > SHOWN_SECONDS, "it has the permit still"
    wait_until(lambda: not branch.is_at_work)
    look = branch.look()
    assert (25, 0, 3) == (look.served, look.in_line, look.most_at_once), "also the crashed one's"
    assert {*TELLERS} - {crashed} == {*in_state(look, "home")}
    assert look.is_right
    wait_until(lambda: branch.look().taken == 0)


@pytest.mark.ci
def test_the_page_opens_a_branch_crashes_a_teller_and_changes_the_permits(
    client: redis.Redis,
) -> None:
    visitor = Client()

    def post(view: str, *about: object) -> Any:
        return visitor.post(reverse(f"tellers:{view}", args=about), follow=True)

    def page() -> str:
        return visitor.get(address).content.decode()

    def is_over() -> bool:
        return bool(visitor.get(address, headers={"accept": "application/json"}).json()["over"])

    assert b"Open the branch" in visitor.get(reverse("tellers:start_page")).content
    address = post("open").redirect_chain[-1][0]
    name = address.split("/")[-2]
    branch = BRANCHES.find(name)
    assert branch
    try:
        assert b"A branch is open" in post("open").content
        wait_until(lambda: "3 of 3" in page())
        post("permits", name, 2)
        post("customers", name)
        (who, *_) = in_state(branch.look(), "serving")
        assert reverse("tellers:crash", args=[name, who]) in page()
        assert 405 == visitor.get(reverse("tellers:crash", args=[name, who])).status_code
        assert not is_over()
        post("crash", name, who)
        wait_until(lambda: "2 of 2" in page())
        assert re.search(rf"{who}</th>\s*<td><span class=\"state dead\">", page())
    finally:
        branch.end()
    wait_until(lambda: not branch.is_at_work)
    assert is_over()
    assert "closed" in page()
    assert b"The branch is closed." in post("crash", name, who).content
    for view, *about in (
        ("permits", name, 6),
        ("permits", name, 0),
        ("crash", name, "Zoe"),
        ("customers", "x"),
    ):
        assert 404 == post(view, *about).status_code


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
def test_a_killed_worker_is_followed_and_everybody_gets_the_result(client: redis.Redis) -> None:
    visitor = Client()
    assert b"Start three workers" in visitor.get(reverse("failover:start_page")).content
    address = visitor.post(reverse("failover:start")).headers["Location"]
    name = address.split("/")[-2]
    team = TEAMS.find(name)
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
