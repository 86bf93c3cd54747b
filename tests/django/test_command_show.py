"""`manage.py locks show`: the details of one lock, its holder and its queue."""

from __future__ import annotations

import csv
import re

import pytest

from redis_locks import Hold
from tests.django.command_calls import run
from tests.support.parties import MINUTES, ask

pytestmark = pytest.mark.usefixtures("own_prefix")


def test_show_tells_all_about_the_holder(name: str, hold: Hold) -> None:
    out, err = run("show", name)
    assert "" == err
    assert f"Lock {name} (exclusive)" in out
    assert "(nightly report)" in out
    assert f"fencing token  {hold.fencing_token}" in out
    assert hold.token not in out, "people paste what they see into tickets"
    assert "by nightly report on " in out
    assert "Nobody waits." in out


def test_show_in_columns_has_a_line_for_the_holder(name: str, hold: Hold) -> None:
    (row,) = csv.DictReader(run("show", name, "--format", "csv")[0].splitlines())
    assert ("holder", hold.token) == (row["role"], row["token"])


def test_show_pages_the_waiters_in_their_order(name: str, hold: Hold) -> None:
    ask(((name, f"waiter{number}.1") for number in range(30)), wait=MINUTES)
    first, _ = run("show", name)
    second, _ = run("show", name, "--page", "2")
    assert "Waiters (30)" in first
    assert "30 wait, the first for" in first
    assert re.search(r"\n    1 +\S+s  web-1 pid 4711 thread MainThread \(many\)\n", first)
    assert "and 10 more: `show` lists them with --page or --limit" in first
    assert [str(place) for place in range(21, 31)] == re.findall(r"\n +(\d+) ", second)
    assert "more:" not in second


def test_show_tells_a_deadlock(name: str) -> None:
    other = f"{name}:other"
    ask([(name, "first.1"), (other, "second.1")], wait=0)
    ask(((name, f"waiter{number}.1") for number in range(30)), wait=MINUTES)
    ask([(other, "first.2"), (name, "second.2")], wait=MINUTES)
    assert "This is a deadlock" in run("show", name)[0]
    assert "This is a deadlock" in run("show", other)[0]
