"""`check_alerts` and `manage.py locks watch --alerts`: who is told of what, and how often."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from redis_locks import Lock, LockAlert, LockLost, inspection
from redis_locks.diagnosis import AlertEvent, check_alerts
from redis_locks.signals import lock_alert
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import fails, run
from tests.support.configuration import get_settings
from tests.support.parties import ask, held, waited_for
from tests.support.statistics import flush, long_holds_are_usual
from tests.support.timings import alerts_are_told_again_after
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counted")


@pytest.fixture
def told() -> Iterator[list[AlertEvent]]:
    events: list[AlertEvent] = []

    def receive(event: AlertEvent, **_: object) -> None:
        events.append(event)

    lock_alert.connect(receive)
    yield events
    lock_alert.disconnect(receive)


def rules(*given: LockAlert) -> Any:
    return override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "ALERTS": list(given)})


def states(events: list[AlertEvent]) -> list[tuple[str, str]]:
    return [(event.alert.label, event.state) for event in events]


def test_a_wait_is_told_when_it_begins_to_fire_and_when_it_is_over(
    told: list[AlertEvent], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redis_locks.alerts")
    with rules(LockAlert("oldest_wait", severity="critical")):
        with held("a"), waited_for("a", "report"):
            until(check_alerts)
            (firing,) = check_alerts()
        assert [] == check_alerts()
    assert [("oldest_wait above 0", "firing"), ("oldest_wait above 0", "resolved")] == states(told)
    assert ("a",) == firing.locks
    assert "a: 1 wait, the first for" in firing.message
    assert [logging.CRITICAL, logging.INFO] == [
        record.levelno for record in caplog.records if record.name == "redis_locks.alerts"
    ]


def test_few_waiters_and_other_locks_do_not_fire() -> None:
    other = LockAlert("oldest_wait", locks="b*")
    few = LockAlert("oldest_wait", waiters=2)
    every = LockAlert("oldest_wait", label="every")
    with rules(other, few, every), held("a"), waited_for("a"):
        until(check_alerts)
        assert ["every"] == [event.alert.label for event in check_alerts()]


def test_a_long_hold_names_the_holder_that_has_held_for_longest() -> None:
    """Its lease ends last."""
    ask([("a", "old.1")], mode="shared", wait=0)
    until(lambda: inspection.lock("a").holders[0].held_for > 0)
    with rules(LockAlert("long_hold")), held("a", mode="shared", label="new"):
        (event,) = check_alerts()
        assert " by many." in event.message
    inspection.force_release("a")


@pytest.mark.parametrize(("locks", "fires"), [("*", False), ("queued:*", True)])
def test_a_message_in_a_queue_is_a_long_hold_only_for_rules_that_name_it(
    locks: str, fires: bool
) -> None:
    with rules(LockAlert("long_hold", locks=locks)), held("queued:invoice:7"):
        until(lambda: inspection.lock("queued:invoice:7").holders[0].held_for > 0)
        assert fires == bool(check_alerts())


@pytest.mark.parametrize(("usual", "fires"), [(1000.0, False), (0.0, True)])
def test_a_hold_that_is_usual_does_not_fire(
    usual: float, fires: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_holds_are_usual(monkeypatch, usual)
    with rules(LockAlert("long_hold")), held("a"):
        # It has been held for some time before anything can fire.
        until(lambda: (lock := inspection.lock("a")) and lock.holders[0].held_for > 0)
        assert fires == bool(check_alerts())


def test_lost_holds_are_counted() -> None:
    with rules(LockAlert("lost", above=1), LockAlert("lost")):
        for count, expected in ((1, ["lost above 0"]), (2, ["lost above 1", "lost above 0"])):
            with pytest.raises(LockLost), Lock("a"):
                inspection.force_release("a")
            flush()
            firing = check_alerts()
            assert expected == [event.alert.label for event in firing]
            assert {float(count)} == {event.value for event in firing}
            assert f"a: {count} lost." == firing[0].message


def test_one_process_tells_and_tells_again_after_a_while(
    told: list[AlertEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    with rules(LockAlert("long_hold")), held("a"):
        until(check_alerts)
        assert check_alerts()
        assert 1 == len(told)
        alerts_are_told_again_after(monkeypatch, 0.0)
        first, again = told[0], check_alerts()[0]
    assert 2 == len(told)
    assert first.since == again.since


def test_a_server_that_is_gone_is_told_once(
    told: list[AlertEvent], private_server: EmbeddedServer
) -> None:
    with rules(LockAlert("server", severity="critical")):
        check_alerts(using=private_server.url)
        private_server.kill()
        (first,) = check_alerts(using=private_server.url)
        (again,) = check_alerts(using=private_server.url)
        assert first.since == again.since
        assert [first] == [event for event in told if event.state == "firing"]
        private_server.restart()
        until(lambda: not check_alerts(using=private_server.url))
    assert ("The server answers.", first.since) in [(each.message, each.since) for each in told]


def test_the_command_prints_what_fires_and_fails() -> None:
    with rules(LockAlert("long_hold")):
        assert ("", "") == run("watch", "--alerts", "--once")
        with held("a"):
            until(check_alerts)
            assert "1 alert fires." == fails("watch", "--alerts", "--once")
    assert "goes with --alerts" in fails("watch", "--once", code=64)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"rule": "wait"}, "rule of a LockAlert must be 'oldest_wait', "),
        ({"rule": "lost", "within": 5}, "within of a LockAlert must be from 60 to 3600, not 5"),
        ({"rule": "lost", "waiters": "3"}, "waiters of a LockAlert must be a number, not '3'"),
    ],
)
def test_a_wrong_rule_is_refused_where_it_is_written(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        LockAlert(**arguments)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([{"rule": "lost"}], "must contain only LockAlert"),
        ([LockAlert("lost"), LockAlert("lost")], "has two alerts with the label 'lost above 0'"),
    ],
)
def test_wrong_settings_are_refused(value: object, error: str) -> None:
    with (
        override_settings(REDIS_LOCKS={"ALERTS": value}),
        pytest.raises(ImproperlyConfigured, match=error),
    ):
        get_settings()
