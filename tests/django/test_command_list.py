"""`manage.py locks list`: which locks it lists, in what order, and what it tells of them."""

from __future__ import annotations

import csv
import json
import os

import pytest

from redis_locks import Hold, Lock, inspection
from redis_locks.inspection import LockInfo
from tests.django.command_calls import Terminal, run
from tests.django.lock_infos import info
from tests.support.commands import Selection
from tests.support.parties import held

pytestmark = pytest.mark.usefixtures("own_prefix")


def test_an_empty_list_says_so_on_stderr() -> None:
    out, err = run("list")
    assert "No lock is held or waited for.\n" == err
    assert 1 == len(out.splitlines())  # the names of the columns
    assert "" == run("list", "--format", "table")[0]


def test_an_empty_list_in_json_is_an_empty_list() -> None:
    assert ("[]\n", "") == run("list", "--json")


def test_the_list_is_tab_separated_when_stdout_is_not_a_terminal(name: str, hold: Hold) -> None:
    out, err = run("list")
    assert "" == err
    header, line = (row.split("\t") for row in out.splitlines())
    found = dict(zip(header, line, strict=True))
    assert (name, "exclusive", "0") == (found["name"], found["mode"], found["waiting"])
    assert (str(os.getpid()), str(hold.fencing_token)) == (found["pid"], found["fencing_token"])
    assert ("thread MainThread", "nightly report") == (found["unit"], found["label"])
    assert 0 <= float(found["held_for"]) < 30 < float(found["lease_left"]) <= 60


def test_the_list_fits_a_terminal(name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("list", out=Terminal())[0].splitlines()
    assert "NAME HOLDER HELD LEFT WAITERS FENCE" == " ".join(lines[0].split())
    assert name[:6] in lines[1]
    assert f"pid {os.getpid()}" in lines[1]
    assert lines[1].endswith(str(hold.fencing_token))
    assert all(len(line) <= 80 for line in lines)


def test_the_list_says_what_holders_run_where_there_is_room(
    hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    header, line = run("list", out=Terminal())[0].splitlines()
    assert "NAME HOLDER RUNS HELD LEFT WAITERS FENCE" == " ".join(header.split())
    assert "nightly report" in line


def test_the_list_in_json_has_full_values_and_seconds(name: str, hold: Hold) -> None:
    (lock,) = json.loads(run("list", "--json")[0])
    assert [name, "exclusive", 0, []] == [
        lock[key] for key in ("name", "mode", "waiting", "waiters")
    ]
    (holder,) = lock["holders"]
    assert (hold.token, hold.fencing_token) == (holder["token"], holder["fencing_token"])
    assert 30 < holder["lease_left"] <= 60


def test_a_filter_that_matches_nothing_says_of_how_many(name: str, hold: Hold) -> None:
    assert ("", "None of the 1 locks matches.\n") == run("list", "other:*", "--format", "table")


def test_a_limit_says_what_it_leaves_out(name: str, hold: Hold) -> None:
    with Lock(f"{name}:2"):
        out, err = run("list", "--limit", "1")
    assert [name] == [row["name"] for row in csv.DictReader(out.splitlines(), delimiter="\t")]
    assert "1 of 2 locks.\n" == err


LOCKS = {
    lock.name: lock
    for lock in (
        info("account:1", held_for=5, lease_left=3, host="web-2"),
        info("report", held_for=60, lease_left=2),
        info("account:2", waiters=3, held_for=9, lease_left=1),
        LockInfo("waited for", "exclusive", (), info(waiters=1).waiters, 1),
    )
}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (Selection(), ["account:1", "account:2", "report", "waited for"]),
        (Selection(pattern="account:*"), ["account:1", "account:2"]),
        (Selection(pattern="Account:*"), []),
        (Selection(host="web-2"), ["account:1"]),
        (Selection(older=9), ["report"]),
        (Selection(contended=True), ["account:2", "waited for"]),
        (Selection(contended=True, older=1), ["account:2"]),
        (Selection(sort="held"), ["report", "account:2", "account:1", "waited for"]),
        (Selection(sort="lease"), ["waited for", "account:2", "report", "account:1"]),
        (Selection(sort="queue"), ["account:2", "waited for", "account:1", "report"]),
    ],
)
def test_locks_are_filtered_and_sorted(
    chosen: Selection, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "names", lambda **_: sorted(LOCKS))
    monkeypatch.setattr(inspection, "locks", lambda *, names, **_: [LOCKS[name] for name in names])
    queues = {name: LOCKS[name].waiting for name in sorted(LOCKS)}
    monkeypatch.setattr(inspection, "queues", lambda **_: queues)
    found = chosen.search(None)
    assert names == [lock.name for lock in found.part(0, None)]
    assert names[:1] == [lock.name for lock in found.part(0, 1)]
    assert (len(names), 4) == (len(found), found.there)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["--limit", "1"], ["a"]),
        (["b*"], ["b"]),
        (["b*", "--sort", "held"], ["b"]),
        (["--sort", "held", "--limit", "1"], ["a", "b", "c"]),
    ],
)
def test_only_locks_that_may_be_shown_are_read(
    arguments: list[str], read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    really = inspection.locks

    def locks(*, names: list[str], using: str | None) -> list[LockInfo]:
        asked.extend(names)
        return really(names=names, using=using)

    monkeypatch.setattr(inspection, "locks", locks)
    with held("a"), held("b"), held("c"):
        run("list", *arguments)
    assert read == asked
