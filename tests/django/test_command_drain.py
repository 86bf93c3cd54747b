"""`manage.py locks drain`: the end of all that one host has."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from redis_locks import Hold, LockLost, inspection
from tests.django.command_calls import answers, fails, run
from tests.support.parties import held, on_host, waited_for
from tests.support.world import until

pytestmark = pytest.mark.usefixtures("own_prefix")

HOST = "web-2.example"


@pytest.fixture
def theirs() -> Iterator[Hold]:
    """A lock that the host holds, with a waiter on the same host, beside one of another host."""
    with ExitStack() as stack:
        stack.enter_context(held("ours"))
        with on_host(HOST):
            hold = stack.enter_context(held("report", label="nightly report"))
            told = stack.enter_context(waited_for("report", "import"))
        yield hold
        inspection.drain(HOST)
        until(lambda: told)


def test_it_says_what_it_ended(theirs: Hold) -> None:
    out, err = run("drain", "--host", HOST, "-y", "--format", "table")
    assert [
        f"Released lock 'report': {HOST} pid",
        f"Cancelled the wait for lock 'report': {HOST} pid",
        f"Ended 1 hold and 1 wait of host '{HOST}'.",
    ] == [line.partition(" pid")[0] + " pid" * (" pid" in line) for line in out.splitlines()]
    assert "learn of it at once" in err
    with pytest.raises(LockLost):
        theirs.extend(60)
    assert ["ours"] == inspection.names()


def test_it_leaves_the_lock_of_a_task_that_is_still_queued() -> None:
    with on_host(HOST), held("queued:report"), held("report"):
        ended = inspection.drain(HOST)
        assert ["report"] == [holder.lock for holder in ended.holders]
        assert ["queued:report"] == inspection.names()


def test_programs_get_each_hold_and_wait(theirs: Hold) -> None:
    ended = json.loads(run("drain", "--host", HOST, "-y", "--json")[0])
    assert (HOST, [theirs.token]) == (ended["host"], [h["token"] for h in ended["holders"]])
    assert ["import"] == [waiter["label"] for waiter in ended["waiters"]]


def test_it_asks_first_and_says_how_many(theirs: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda: "y")
    out, err = run("drain", "--host", HOST)
    assert err.startswith(f"End 1 hold and 1 wait of host '{HOST}'? [y/N] ")
    assert "Ended 1 hold and 1 wait" in out


def test_without_consent_nothing_is_ended(theirs: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda: "n")
    assert "Aborted; nothing was ended." == fails("drain", "--host", HOST)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "--yes" in fails("drain", "--host", HOST)
    theirs.extend(60)


def test_a_dry_run_asks_nothing_ends_nothing_and_says_what_it_would_end(theirs: Hold) -> None:
    out, err = run("drain", "--host", HOST, "--dry-run", "--format", "table")
    released, cancelled, summary = out.splitlines()
    assert released.startswith(f"Would release lock 'report': {HOST} pid")
    assert cancelled.startswith(f"Would cancel the wait for lock 'report': {HOST} pid")
    assert f"Would end 1 hold and 1 wait of host '{HOST}'." == summary
    assert "learn" not in err
    listed = json.loads(run("drain", "--host", HOST, "-n", "-y", "--json")[0])
    assert listed["dry_run"]
    assert [theirs.token] == [holder["token"] for holder in listed["holders"]]
    assert 1 == len(inspection.parties().waiters)
    theirs.extend(60)


@pytest.mark.parametrize("consent", [["--yes"], ["--dry-run"], []])
def test_a_host_that_has_nothing_is_not_found_and_others_are_named(
    theirs: Hold, consent: list[str]
) -> None:
    assert "must not be empty" in fails("drain", "--host", "", *consent, code=64)
    said = fails("drain", "--host", "web-2", *consent)
    assert "Host 'web-2' holds no lock and waits for none." in said
    assert HOST in said
    theirs.extend(60)
