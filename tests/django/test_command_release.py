"""`manage.py locks release` and `cancel`: holds and waits ended by hand, with consent."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from redis_locks import Hold, Lock, LockBackendError, LockLost, inspection
from redis_locks.inspection import LockInfo, WaiterInfo
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_calls import answers, fails, run
from tests.django.lock_infos import info
from tests.support.commands import show
from tests.support.diagnosis import as_user
from tests.support.parties import MINUTES, ask, waited_for
from tests.support.world import granted, until

pytestmark = pytest.mark.usefixtures("own_prefix")


def test_release_ends_the_hold_and_says_what_that_means(name: str, hold: Hold) -> None:
    out, err = run("release", name, "--yes")
    assert out.startswith(f"Released lock '{name}', which was held by ")
    assert "learns of it at once" in err
    assert inspection.lock(name) is None


def _end_of_file() -> str:
    raise EOFError


@pytest.mark.parametrize("answer", [lambda: "n", _end_of_file])
def test_release_without_consent_releases_nothing(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]
) -> None:
    answers(monkeypatch, answer)
    assert "Aborted; nothing was released." == fails("release", name)
    assert inspection.lock(name)


def test_release_refuses_when_it_cannot_ask(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "--yes" in fails("release", name)
    assert inspection.lock(name)


def test_release_ends_only_the_hold_it_asked_about(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    successors: list[Hold | None] = []

    def answer() -> str:
        hold.release()
        successors.append(Lock(name, lease=60, renew=False).acquire(wait=0))
        return "y"

    answers(monkeypatch, answer)
    assert "nothing was released" in fails("release", name)
    (successor,) = successors
    assert successor
    successor.release()


def test_release_and_cancel_end_more_than_a_thousand(name: str) -> None:
    ask(((name, f"holder{number}.1") for number in range(1005)), mode="shared", wait=0)
    ask(((name, f"waiter{number}.1") for number in range(1005)), wait=MINUTES)
    assert f"Cancelled 1005 waits for lock '{name}'.\n" == run("cancel", name, "--yes")[0]
    assert "and 1002 more. " in run("release", name, "--yes")[0]
    assert inspection.lock(name) is None


def test_cancel_ends_the_waits_and_says_how_many(name: str, hold: Hold) -> None:
    with waited_for(name) as first, waited_for(name) as second:
        out, _ = run("cancel", name, "--yes")
        assert f"Cancelled 2 waits for lock '{name}'." == out.strip()
        until(lambda: first and second)
        assert "Nobody waits" in fails("cancel", name, "--yes")
        assert "with this token" in fails("cancel", name, "nobody", "--yes")
    assert ["cancelled" in str(error) for error in (*first, *second)] == [True, True]


WHY = "stuck since 3:05"


def audited(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == "redis_locks.audit"]


def test_the_log_says_who_released_what_and_why(
    name: str, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "redis_locks.audit"):
        run("release", name, "--yes", "--reason", "stuck since 3:05")
    first, record = audited(caplog)
    assert f"force-releases lock '{name}' of " in first.getMessage()
    assert ["begun", "done"] == [vars(each)["outcome"] for each in (first, record)]
    assert f"force-released lock '{name}' of " in record.getMessage()
    assert record.getMessage().endswith("Reason: stuck since 3:05")
    assert ("force-released", name) == (vars(record)["action"], vars(record)["lock"])


def test_a_reason_of_several_lines_is_one_line_of_the_log(
    name: str, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "redis_locks.audit"):
        run("release", name, "--yes", "--reason", "stuck\nERROR forged")
    messages = [record.getMessage() for record in audited(caplog)]
    assert ["forged" in message for message in messages] == [True, True]
    assert [message.splitlines() for message in messages] == [[message] for message in messages]


def test_the_log_has_the_waits_that_ended_before_the_server_was_gone(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waiter = info(waiters=1).waiters[0]
    waiters = tuple(replace(waiter, token=token, pid=pid) for pid, token in enumerate("ab", 1))
    two = LockInfo(name, "exclusive", (), waiters, 2)
    answers = iter([True])

    def end(waiter: WaiterInfo, **_: object) -> bool:
        for answer in answers:
            return answer
        raise LockBackendError("gone")

    monkeypatch.setattr(show, "whole_lock", lambda *_, **__: two)
    monkeypatch.setattr(inspection, "cancel", end)
    with caplog.at_level("INFO", "redis_locks.audit"):
        fails("cancel", name, "--yes", code=69)
    told = [(vars(each)["outcome"], vars(each)["parties"]) for each in audited(caplog)]
    ended, left = map(str, two.waiters)
    assert [("begun", [ended, left]), ("done", [ended]), ("unknown", [left])] == told
    assert "LockBackendError('gone')" in caplog.text


@pytest.mark.parametrize("verb", ["release", "drain"])
def test_the_log_says_who_did_what_though_it_failed(
    name: str,
    hold: Hold,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LockBackendError("gone")

    monkeypatch.setattr(inspection, "force_release", fail)
    monkeypatch.setattr(inspection, "drain", fail)
    what = {"release": [name], "drain": ["--host", inspection.lock(name).holders[0].host]}[verb]
    with caplog.at_level("INFO", "redis_locks.audit"):
        fails(verb, *what, "--yes", "--reason", WHY, code=69)
    first, second = audited(caplog)
    assert ("INFO", "begun") == (first.levelname, vars(first)["outcome"])
    assert ("WARNING", "unknown") == (second.levelname, vars(second)["outcome"])
    assert all(each.getMessage().endswith(f"Reason: {WHY}") for each in (first, second))


def test_the_log_names_a_server_without_its_password(
    name: str, private_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = as_user(private_server, "+@all", "~*", "&*")
    hold = granted(Lock(name, using=url).acquire())
    with caplog.at_level("INFO", "redis_locks.audit"):
        run("release", name, "--yes", "--using", url)
        fails("drain", "--host", "nowhere", "--yes", "--using", url)
    told = audited(caplog)
    assert len(told) == 4
    for each in told:
        assert "secret" not in f"{each.getMessage()} {vars(each)}"
        assert private_server.url in each.getMessage()
    with pytest.raises(LockLost):
        hold.release()


def test_release_says_who_gets_the_lock_next(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, lambda: "y")
    with waited_for(name, "GET /next"):
        assert "1 waiter; next: GET /next on " in run("release", name)[1]
