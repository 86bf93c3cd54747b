"""What a survey finds where there are too many locks to read them all, and what it costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from redis_locks import LockAlert
from redis_locks.diagnosis import alerts, check_alerts
from redis_locks.inspection import LockInfo, blockers, filters, parties
from redis_locks.inspection import survey as surveys
from redis_locks.inspection.blockers import around
from redis_locks.inspection.filters import Filter, names_match, search
from redis_locks.inspection.survey import Named, contended, queues, survey
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import run
from tests.support.parties import MINUTES, ask, held, waited_for
from tests.support.world import until

LOCKS, QUEUES, SUMMARIES = 100, 30, 10
NAMED = [f"order:{place:05}" for place in range(10, 20)]


@pytest.fixture(params=[1, 7], ids=lambda partitions: f"{partitions} partitions")
def crowd(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """So many locks that not all of their queues are looked at."""
    for bound in ("FEW_QUEUES", "MOST"):
        monkeypatch.setattr(surveys, bound, QUEUES)
    partitions: int = request.param
    settings = {"PREFIX": f"{name}-{partitions}", "PARTITIONS": partitions}
    with override_settings(REDIS_LOCKS=settings):
        hold_many(LOCKS)
        yield


def hold_many(number: int, using: str | None = None) -> None:
    held_ones = ((f"order:{place:05}", f"holder{place}.1") for place in range(number))
    ask(held_ones, wait=0, using=using)


def named(wanted: str, *, alone: bool = False) -> Named:
    return Named(wanted, names_match, literal=True, alone=alone)


@pytest.mark.usefixtures("crowd")
def test_a_long_wait_is_found_among_any_number_of_locks() -> None:
    # Its lease ends last, so that nothing but the wait brings it up.
    with held("stuck", lease=3600), waited_for("stuck", lease=1):
        until(lambda: "stuck" in queues(most=QUEUES).noted)
        found = survey(most=SUMMARIES)
        locks, whole = contended()
    assert found.oldest
    assert ("stuck", LOCKS + 1) == (found.oldest.name, found.total)
    assert (1, 1) == (found.waiting, found.contended)
    assert (False, False) == (found.whole, found.counted)
    assert SUMMARIES == len(found.locks)
    assert (["stuck"], False) == ([lock.name for lock in locks], whole)


@pytest.mark.usefixtures("crowd")
def test_an_alert_finds_a_long_hold_by_its_name_among_any_number_of_locks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerts, "survey", partial(survey, most=SUMMARIES))
    fired = {}
    # Their leases end last, and nobody waits for them.
    with held("report:1", lease=3600), held("other:1", lease=3600):
        time.sleep(0.002)
        for locks in ("report:*", "other:1"):
            rule = LockAlert("long_hold", locks=locks)
            with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "ALERTS": [rule]}):
                fired[locks] = [event.locks for event in check_alerts()]
    assert {"report:*": [("report:1",)], "other:1": [("other:1",)]} == fired


@pytest.mark.usefixtures("crowd")
def test_names_that_an_alert_looks_for_do_not_hide_a_long_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerts, "MOST", SUMMARIES)
    monkeypatch.setattr(alerts, "survey", partial(survey, most=SUMMARIES))
    given = [LockAlert("long_hold", locks="order:*"), LockAlert("oldest_wait", above=0.1)]
    with (
        override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "ALERTS": given}),
        held("stuck", lease=3600),
        waited_for("stuck", lease=1),
    ):
        until(lambda: "stuck" in queues(most=QUEUES).noted)
        firing = {event.alert.rule: event.locks for event in check_alerts()}
    assert ("stuck",) == firing["oldest_wait"]
    assert len(firing["long_hold"]) >= SUMMARIES // 2


def test_other_waiters_come_before_leases_that_end_first(
    own_prefix: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "FEW_QUEUES", LOCKS)
    hold_many(LOCKS)
    ask([("order:00077", "waiter.1")], wait=MINUTES)
    found = survey(most=SUMMARIES)
    assert SUMMARIES == len(found.locks)
    assert (1, True, False) == (found.waiting, found.counted, found.whole)
    assert found.oldest
    assert "order:00077" == found.oldest.name


@pytest.mark.usefixtures("crowd")
def test_a_search_by_name_finds_what_nothing_else_brings_up() -> None:
    found = survey(most=20, named=named("order:0001*"))
    assert set(NAMED) <= {lock.name for lock in found.locks}
    (one,) = survey(most=20, named=named("order:00077", alone=True)).locks
    assert "order:00077" == one.name
    assert () == survey(most=20, named=named("none", alone=True)).locks
    assert () == survey(most=20, named=named("no\0name", alone=True)).locks


@pytest.mark.usefixtures("crowd")
def test_the_list_says_what_it_did_not_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "FEW", SUMMARIES)
    out, err = run("list", "--limit", "5", "--json")
    assert 5 == len(json.loads(out))
    assert f"Of {LOCKS} locks, this looked at {SUMMARIES}:" in err
    # Whoever asks for more gets more.
    out, err = run("list", "--limit", f"{LOCKS}", "--json")
    assert (LOCKS, "") == (len(json.loads(out)), err)
    # One lock is found whole by its name.
    out, err = run("list", "order:00077", "--json")
    assert (["order:00077"], "") == ([lock["name"] for lock in json.loads(out)], err)


@pytest.fixture
def alone(private_server: EmbeddedServer) -> Iterator[Any]:
    """A client of a server that nobody else asks anything."""
    with (
        override_settings(REDIS_LOCKS={"CONNECTION": private_server.url, "STATISTICS": False}),
        private_server.client() as client,
    ):
        yield client


def page() -> None:
    found = search(Filter())
    found.details(found.found[:100])


LOOKS: dict[str, Callable[[], object]] = {
    "page": page,
    "badge": lambda: queues(most=500),
    "waiters": contended,
    "metrics": lambda: survey(most=500),
    "one lock": lambda: around(LockInfo("order:00001", "exclusive", (), (), 1)),
}


def keys_read(client: Any, look: Callable[[], object]) -> int:
    """Return how often scripts read a lock's hash for one look."""
    client.config_resetstat()
    look()
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{verb}", {}).get("calls", 0) for verb in ("hget", "hmget"))


CROWDS = {f"crowd:{number:02}": 11 + number % 3 for number in range(40)} | {"crowd:99": 320}
"""How many wait for each of some locks: more than a list shows, and for one more than a script
returns.
"""


@pytest.fixture
def crowds(alone: Any) -> None:
    waiters = (
        (lock, f"{lock}-{place}.1") for lock, many in CROWDS.items() for place in range(many)
    )
    ask([(lock, f"holder-{lock}.1") for lock in CROWDS], wait=0)
    ask(waiters, wait=MINUTES)


@pytest.mark.usefixtures("crowds")
def test_of_many_crowds_each_is_whole_and_in_order() -> None:
    found = parties().waiters
    assert list(CROWDS) == list(dict.fromkeys(waiter.lock for waiter in found))
    for lock, many in CROWDS.items():
        tokens = [waiter.token for waiter in found if waiter.lock == lock]
        assert [f"{lock}-{place}.1" for place in range(many)] == tokens


def test_no_look_reads_more_when_there_are_more_locks(
    alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "MOST", 500)
    monkeypatch.setattr(filters, "FEW", 100)
    for module in (surveys, blockers):
        monkeypatch.setattr(module, "FEW_QUEUES", 500)
    hold_many(1_000)
    few = {label: keys_read(alone, look) for label, look in LOOKS.items()}
    hold_many(5_000)
    many = {label: keys_read(alone, look) for label, look in LOOKS.items()}
    assert few == many
    assert 500 < few["page"] < 1_000
