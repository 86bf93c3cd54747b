"""`manage.py locks list` and `show`: which locks they tell of, in what order, and what."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import subprocess
import sys
from contextlib import ExitStack

import pytest

from redis_locks import Hold, Lock, inspection
from tests.django.command_calls import Terminal, fails, run
from tests.django.command_line import environment
from tests.support.parties import MINUTES, ask, held, on_host, waited_for
from tests.support.world import until

pytestmark = pytest.mark.usefixtures("own_prefix")


def test_an_empty_list_says_so_on_stderr() -> None:
    out, err = run("list")
    assert "No lock is held or waited for.\n" == err
    assert 1 == len(out.splitlines())  # the names of the columns
    assert "" == run("list", "--format", "table")[0]


def test_the_list_is_tab_separated_when_stdout_is_not_a_terminal(name: str, hold: Hold) -> None:
    out, err = run("list")
    assert "" == err
    header, line = (row.split("\t") for row in out.splitlines())
    found = dict(zip(header, line, strict=True))
    assert (name, "exclusive", "0") == (found["name"], found["mode"], found["waiting"])
    assert (str(os.getpid()), str(hold.fencing_token)) == (found["pid"], found["fencing_token"])
    assert ("thread MainThread", "nightly report") == (found["unit"], found["label"])
    assert 0 <= float(found["held_for"]) < 30 < float(found["lease_left"]) <= 60


def test_a_terminal_shows_a_screenful_and_says_how_many_more_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    ask(((f"order:{number:03}", f"holder{number}.1") for number in range(507)), wait=0)
    out, err = run("list", out=Terminal())
    shown = [line for line in out.splitlines() if line.startswith("order:")]
    assert 20 == len(shown)
    assert "… 487 more (`--all`)\n" == err
    assert len(out.splitlines()) + 1 < 24
    everything, nothing = run("list", "--all", out=Terminal())
    assert 507 == sum(line.startswith("order:") for line in everything.splitlines())
    assert "" == nothing
    # Programs get all.
    assert 508 == len(run("list")[0].splitlines())
    assert 507 == len(json.loads(run("list", "--json", out=Terminal())[0]))


def test_a_terminal_shows_few_of_a_crowd_that_blocks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    ask([("payroll", "holder.1")], wait=0)
    ask((("payroll", f"waiter{number}.1") for number in range(150)), wait=MINUTES)
    ask([("report", "waiter0.2")], wait=0)
    ask([("report", "last.1")], wait=MINUTES)  # the first waiter blocks somebody
    lines = run("blocking", out=Terminal())[0].splitlines()
    assert 1 + 11 + 1 + 1 == len(lines)
    assert lines[0].endswith("blocks 150")
    assert "└─ … 139 more that block nobody (`--all`)" == lines[-1]
    assert 1 == sum("for report" in line for line in lines)
    everything, _ = run("blocking", "--all", out=Terminal())
    assert 150 == everything.count("for payroll")
    # Programs get all.
    assert 151 == len(json.loads(run("blocking", "--json", out=Terminal())[0]))
    inspection.drain("web-1")


@pytest.mark.parametrize("verb", ["show", "release", "cancel"])
def test_a_mistyped_name_is_answered_with_those_that_are_like_it(verb: str) -> None:
    with held("account:17"), held("report"):
        assert fails(verb, "acount:17").endswith("Did you mean 'account:17'?")
        assert "Did you mean" not in fails(verb, "nothing-like-it")
        assert "Did you mean 'account:17'?" in run("list", "acount:17", "--format", "table")[1]


def test_a_limit_says_what_it_leaves_out(name: str, hold: Hold) -> None:
    with Lock(f"{name}:2"):
        out, err = run("list", "--limit", "1")
    assert [name] == [row["name"] for row in csv.DictReader(out.splitlines(), delimiter="\t")]
    assert "1 of 2 locks.\n" == err


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["account:2", "report", "account:1"]),
        (["account:*"], ["account:2", "account:1"]),
        (["--host", "web-2"], ["account:2", "account:1"]),
        (["--older", "3600"], []),
        (["--contended"], ["account:2"]),
        (["--sort", "held"], ["report", "account:1", "account:2"]),
        (["--sort", "lease"], ["account:1", "report", "account:2"]),
        (["--sort", "queue"], ["account:2", "account:1", "report"]),
    ],
)
def test_locks_are_filtered_and_sorted(arguments: list[str], names: list[str]) -> None:
    with ExitStack() as stack:
        stack.enter_context(held("report", lease=80))
        wait_a_tick("report")
        with on_host("web-2"):
            stack.enter_context(held("account:1", lease=70))
        wait_a_tick("account:1")
        stack.enter_context(held("account:2", lease=90))
        with on_host("web-2"):
            stack.enter_context(waited_for("account:2"))
        assert names == [lock["name"] for lock in json.loads(run("list", "--json", *arguments)[0])]


def wait_a_tick(name: str) -> None:
    """Until a hold is older than the next one: the server's clock ticks in milliseconds."""
    until(lambda: inspection.lock(name).holders[0].held_for > 0)  # type: ignore[union-attr]


@pytest.mark.ci
@pytest.mark.timed
def test_the_list_is_there_as_soon_as_the_help_of_django() -> None:
    def took(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            env=environment(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    turns = [(took("locks", "list"), took("help")) for _ in range(5)]
    listing, helping = (min(times) for times in zip(*turns, strict=True))
    # 0.1 s; and so much of what the help takes, where a slow machine needs more for both.
    assert listing < helping + max(0.1, helping / 4)


# `manage.py locks show`: the details of one lock, its holder and its queue


def test_show_tells_all_about_the_holder(name: str, hold: Hold) -> None:
    out, err = run("show", name)
    assert "" == err
    assert f"Lock {name} (exclusive)" in out
    assert "(nightly report)" in out
    assert f"fencing token  {hold.fencing_token}" in out
    assert hold.token not in out, "people paste what they see into tickets"
    assert "by nightly report on " in out
    assert "Nobody waits." in out


def test_show_lists_the_first_waiters_in_their_order(name: str, hold: Hold) -> None:
    ask(((name, f"waiter{number}.1") for number in range(30)), wait=MINUTES)
    first, _ = run("show", name)
    every, _ = run("show", name, "--limit", "30")
    assert "Waiters (30)" in first
    assert "30 waiters, the first for" in first
    assert re.search(r"\n    1 +\S+s  web-1 pid 4711 thread MainThread \(many\)\n", first)
    assert "and 10 more: `show --limit` lists them" in first
    assert [str(place) for place in range(1, 31)] == re.findall(r"\n +(\d+) ", every)
    assert "more:" not in every


def test_show_tells_a_deadlock(name: str) -> None:
    other = f"{name}:other"
    ask([(name, "first.1"), (other, "second.1")], wait=0)
    ask(((name, f"waiter{number}.1") for number in range(30)), wait=MINUTES)
    ask([(other, "first.2"), (name, "second.2")], wait=MINUTES)
    assert "This is a deadlock" in run("show", name)[0]
    assert "This is a deadlock" in run("show", other)[0]
