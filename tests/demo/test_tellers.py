"""At most three tellers at once: real processes, the permits of a real semaphore, a crash, and another capacity."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.tellers import views
from demo_project.bank.tellers.branch import (
    SHOWN_SECONDS,
    TELLERS,
    Branch,
    Look,
)
from redis_locks import inspection
from redis_locks.testing.server import EmbeddedServer

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

PATIENCE = 60.0


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def branch(client: redis.Redis, redis_server: EmbeddedServer) -> Iterator[Branch]:
    made = Branch(client, redis_server.url, customers=25, seconds=0.3)
    yield made
    made.end()
    wait_until(lambda: not made.is_at_work)


def in_state(look: Look, state: str) -> list[str]:
    return [teller.who for teller in look.tellers if teller.state == state]


@pytest.mark.ci
def test_all_customers_are_served_by_three_tellers_at_a_time(branch: Branch) -> None:
    wait_until(lambda: len(in_state(branch.look(), "serving")) == 3)
    wait_until(lambda: len(in_state(branch.look(), "waiting")) == 2)
    lock = inspection.lock(branch.name)
    assert lock
    # The page shows the product's own semaphore.
    assert {f"teller {who}" for who in TELLERS} >= {holder.label for holder in lock.holders}
    assert {"permit:3"} == {party.mode for party in (*lock.holders, *lock.waiters)}
    wait_until(lambda: not branch.is_at_work)
    look = branch.look()
    assert (25, 0, 3) == (look.served, look.in_line, look.most_at_once)
    assert 25 == sum(teller.served for teller in look.tellers)
    assert [*TELLERS] == in_state(look, "home")
    assert look.is_right


@pytest.mark.ci
def test_a_crashed_teller_s_customer_and_permit_come_back(branch: Branch) -> None:
    wait_until(lambda: in_state(branch.look(), "serving"))
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
    assert (25, 3) == (look.served, look.most_at_once), "also the one whom it was serving"
    wait_until(lambda: branch.look().taken == 0)


@pytest.mark.ci
def test_the_page_opens_a_branch_crashes_a_teller_and_changes_the_permits(
    client: redis.Redis,
) -> None:
    visitor = Client()
    assert "Open the branch" in visitor.get(reverse("tellers:start_page")).content.decode()
    address = visitor.post(reverse("tellers:open")).headers["Location"]
    name = address.split("/")[-2]
    branch = views.BRANCHES.find(name)
    assert branch
    try:
        refused = visitor.post(reverse("tellers:open"), follow=True).content.decode()
        assert "A branch is open" in refused
        wait_until(lambda: "3 of 3" in visitor.get(address).content.decode())
        html = visitor.get(address).content.decode()
        news = visitor.get(address, headers={"accept": "application/json"}).json()
        assert {"tellers_branch"} == set(news["parts"])
        assert not news["over"]
        visitor.post(reverse("tellers:permits", args=[name, 2]))
        visitor.post(reverse("tellers:customers", args=[name]))
        (who, *_) = in_state(branch.look(), "serving")
        crash = reverse("tellers:crash", args=[name, who])
        assert crash in html
        assert 405 == visitor.get(crash).status_code
        visitor.post(crash)
        wait_until(lambda: "2 of 2" in visitor.get(address).content.decode())
        assert re.search(rf"{who}</th>\s*<td><span class=\"state dead\">", _page(visitor, address))
    finally:
        branch.end()
    wait_until(lambda: not branch.is_at_work)
    over = visitor.get(address, headers={"accept": "application/json"}).json()
    assert over["over"]
    assert "closed" in _page(visitor, address)
    told = visitor.post(crash, follow=True).content.decode()
    assert "The branch is closed." in told
    for wrong in (("permits", name, 6), ("permits", name, 0), ("crash", name, "Zoe")):
        assert 404 == visitor.post(reverse(f"tellers:{wrong[0]}", args=wrong[1:])).status_code
    assert 404 == visitor.post(reverse("tellers:customers", args=["x"])).status_code
    lost = visitor.get(reverse("tellers:branch", args=["x"]), follow=True).content.decode()
    assert "has forgotten this branch" in lost
    gone = visitor.get(
        reverse("tellers:branch", args=["x"]), headers={"accept": "application/json"}
    )
    assert (404, "The site has forgotten this branch.") == (gone.status_code, gone.json()["gone"])


def _page(visitor: Client, address: str) -> str:
    return visitor.get(address).content.decode()


def test_without_a_server_no_branch_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = redis.Redis.from_url("unix:///nonexistent/bank.sock")
    monkeypatch.setattr("demo_project.bank.live_page.get_redis_connection", lambda _: broken)
    answer = Client().post(reverse("tellers:open"))
    assert 503 == answer.status_code
    assert "does not answer" in answer.content.decode()
