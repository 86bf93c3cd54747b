"""`manage.py locks show`: the details of one lock, its holder and its queue."""

from __future__ import annotations

import csv
import json

import pytest

from redis_locks import Hold
from tests.django.command_calls import fails, run
from tests.django.lock_infos import info
from tests.support.commands import show

pytestmark = pytest.mark.usefixtures("own_prefix")


def test_show_tells_all_about_the_holder(name: str, hold: Hold) -> None:
    out, err = run("show", name)
    assert "" == err
    assert f"Lock {name} (exclusive)" in out
    assert "(nightly report)" in out
    assert f"fencing token  {hold.fencing_token}" in out
    assert hold.token in out
    assert "Nobody waits for it." in out


def test_show_in_json_is_one_object(name: str, hold: Hold) -> None:
    assert name == json.loads(run("show", name, "--json")[0])["name"]


def test_show_of_a_free_lock_is_not_found(name: str) -> None:
    assert f"Nobody holds lock '{name}' or waits for it." == fails("show", name)


def test_show_in_columns_has_a_line_for_the_holder(name: str, hold: Hold) -> None:
    (row,) = csv.DictReader(run("show", name, "--format", "csv")[0].splitlines())
    assert ("holder", hold.token) == (row["role"], row["token"])


def test_details_show_the_queue_in_order_and_how_many_more_wait() -> None:
    lines = list(show.lines(info(waiters=5), None))
    assert "Queue (5 waiting)" in lines
    assert "    1    1.5s  exclusive  web-1 pid 4711 thread MainThread (manage.py x)" in lines
    assert "and 3 more" in lines[-1]
    assert all(len(line) <= 40 for line in list(show.lines(info(waiters=1), 40))[-1:])
