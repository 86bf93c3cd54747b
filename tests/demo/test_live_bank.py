"""The live bank: a transfer by hand, a race of many, and what the page says of mistakes."""

from __future__ import annotations

import inspect
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank import transfers
from demo_project.bank.accounts import account_key, delete_accounts, read_balances
from demo_project.bank.live import race
from demo_project.bank.live.customers import CUSTOMERS, open_accounts
from demo_project.bank.live.turns import RACE_LOCK
from redis_locks import inspection
from redis_locks.testing import assert_released
from tests.support.parties import held

pytestmark = [pytest.mark.django_db, pytest.mark.urls("demo_project.urls")]

PAIR = ("alice", "bob")
PAID = {"transfer-sender": "alice", "transfer-recipient": "bob", "transfer-amount": "12.50"}
RACED = {"race-sender": "alice", "race-recipient": "bob", "race-amount": "1"}


@pytest.fixture
def bank(client: redis.Redis) -> Iterator[redis.Redis]:
    open_accounts(client)
    yield client
    delete_accounts(client, CUSTOMERS)


def payment(**changes: str) -> dict[str, str]:
    fresh = {"transfer-strategy": "redis_lock", "transfer-operation_id": uuid.uuid4().hex}
    return PAID | fresh | {f"transfer-{field}": value for field, value in changes.items()}


def post(view: str, data: dict[str, str] | None = None) -> Any:
    return Client().post(reverse(f"bank:{view}"), data or {}, follow=True)


def text_of(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_the_front_door_shows_balances_and_forms_once_accounts_are_open(bank: redis.Redis) -> None:
    delete_accounts(bank, CUSTOMERS)
    assert "The accounts are not open yet." in text_of(Client().get("/"))
    refused = post("transfer", payment())
    assert 422 == refused.status_code
    assert "There is no account" in text_of(refused)
    page = text_of(post("open"))
    for shown in ("first balances again", "1,750.00", 'id="transfer"', 'id="race"'):
        assert shown in page
    assert CUSTOMERS == read_balances(bank, CUSTOMERS)


def test_the_same_form_sent_twice_moves_the_money_once(bank: redis.Redis) -> None:
    form = payment()
    assert "alice paid bob 12.50." in text_of(post("transfer", form))
    assert "nothing was moved again" in text_of(post("transfer", form))
    assert [98_750, 51_250] == list(read_balances(bank, PAIR).values())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"amount": "1.005"}, "no more than 2 decimal places"),
        ({"amount": "1000.01"}, "less than the 1,000.01 asked"),
        ({"recipient": "alice"}, "the same account"),
        ({"operation_id": "again"}, "valid UUID"),
    ],
)
def test_a_transfer_that_cannot_be_made_comes_back_with_the_reason(
    bank: redis.Redis, wrong: dict[str, str], said: str
) -> None:
    response = post("transfer", payment(**wrong))
    assert 422 == response.status_code
    assert said in text_of(response)
    assert CUSTOMERS == read_balances(bank, CUSTOMERS)


@pytest.mark.parametrize("view", ["transfer", "race", "open"])
def test_what_changes_money_is_refused_by_get_and_without_the_token(
    bank: redis.Redis, view: str
) -> None:
    url = reverse(f"bank:{view}")
    assert 405 == Client().get(url).status_code
    data = payment() | RACED | {"race-strategy": "redis_lock"}
    assert 403 == Client(enforce_csrf_checks=True).post(url, data).status_code
    assert CUSTOMERS == read_balances(bank, CUSTOMERS)


@pytest.mark.ci
def test_a_race_with_locks_moves_all_and_shows_who_waited_for_whom(bank: redis.Redis) -> None:
    response = post("race", RACED | {"race-strategy": "redis_lock"})
    assert "Every cent is where it should be." in text_of(response)
    assert CUSTOMERS == read_balances(bank, CUSTOMERS)
    result = response.context["result"]
    assert (100, 100) == (len(result.runners), result.moved)
    # Of a hundred at once, all but the first had to wait, and the queue was looked at meanwhile.
    assert result.waiters
    assert result.fullest.holder not in result.fullest.queue
    assert f"<li>{result.fullest.queue[0]}</li>" in text_of(response)
    for account in PAIR:
        assert_released(account_key(account))


def test_a_race_without_locks_shows_what_went_wrong(
    bank: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_read = threading.Barrier(2, timeout=10)
    monkeypatch.setattr("demo_project.bank.transfers.check_funds", lambda *_: both_have_read.wait())
    monkeypatch.setattr("demo_project.bank.live.views.EACH_WAY", 1)
    monkeypatch.setattr(race.run_race, "__kwdefaults__", {"each_way": 1, "work_seconds": 0.0})
    page = text_of(post("race", RACED | {"race-strategy": "unprotected"}))
    # Both wrote what they had read, so each account has only the last one's payment.
    assert "2.00 lost." in page or "2.00 made up" in page or "in the wrong accounts" in page
    assert 'class="verdict wrong"' in page


def test_racing_all_three_shows_what_the_shop_lost_without_locking(
    bank: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_project.bank.live.rush.CUSTOMERS", 2)
    both_have_read = threading.Barrier(2, timeout=20)

    def meet(*_: object) -> None:
        # Others get here one after the other, or read again.
        if inspect.stack()[1].function == "unprotected":
            both_have_read.wait()

    monkeypatch.setattr(transfers, "check_funds", meet)
    page = post("race_all")
    assert [(2000, 2000), (2000, 2000), (2000, 1000)] == [
        (till.paid, till.received) for till in page.context["tills"]
    ]
    assert 2 == text_of(page).count("Nothing lost")
    assert '<p class="sum">10.00 lost</p>' in text_of(page)
    assert not [*bank.scan_iter("account:customer-*"), *bank.scan_iter("account:shop-*")]


@pytest.mark.ci
def test_a_slow_race_leaves_a_queue_to_look_at_and_then_its_result(
    bank: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_project.bank.live.views.SLOW_EACH_WAY", 2)
    monkeypatch.setattr("demo_project.bank.live.views.SLOW_SECONDS", 0.5)
    page = post("race", RACED | {"race-strategy": "redis_lock", "race-slow_motion": "on"})
    assert "The slow race is under way" in text_of(page)
    address = page.redirect_chain[-1][0].partition("#")[0]
    account = account_key("alice")
    while not (found := inspection.lock(account)) or not found.waiters:
        assert "The slow race is under way" in text_of(Client().get(address))
    assert 423 == post("race", RACED | {"race-strategy": "redis_lock"}).status_code
    while "under way" in (page := text_of(Client().get(address))):
        time.sleep(0.05)
    assert "Every cent is where it should be." in page
    assert "4 of 4" in page


@pytest.mark.parametrize(
    ("view", "status", "said"),
    [
        ("transfer", 423, "Nothing was moved. A race is under way; try again in a moment."),
        ("open", 200, "The balances are as they were. A race is under way; try again in a moment."),
        ("race", 423, "Another race or a transfer is under way"),
    ],
)
def test_nobody_else_changes_balances_while_a_race_counts_them(
    bank: redis.Redis, view: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_project.bank.live.turns.PATIENCE_SECONDS", 0)
    bank.hset(account_key("carol"), "money", 7)
    with held(RACE_LOCK, label="somebody's race"):
        response = post(view, payment() | RACED | {"race-strategy": "redis_lock"})
    assert status == response.status_code
    assert said in text_of(response)
    assert "somebody&#x27;s race" in text_of(response)
    assert CUSTOMERS | {"carol": 7} == read_balances(bank, CUSTOMERS)


def test_a_server_that_does_not_answer_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = redis.Redis.from_url("unix:///nonexistent/bank.sock")
    monkeypatch.setattr("demo_project.bank.live_page.get_redis_connection", lambda _: broken)
    response = Client().get(reverse("bank:live"))
    assert 503 == response.status_code
    assert "does not answer" in text_of(response)
    news = Client().get(reverse("bank:live"), headers={"accept": "application/json"})
    assert 503 == news.status_code
    assert "nonexistent" in news.json()["unreachable"]
