"""The past holds of a lock: as a picture on its page, and as `manage.py locks history`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from redis_locks import Lock, Semaphore, inspection
from tests.django.admin_pages import page_of, text_of, viewer
from tests.django.command_calls import fails, run
from tests.support.parties import held, waited_for
from tests.support.statistics import flush

__all__ = ["viewer"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(name: str) -> Iterator[None]:
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name, "HISTORY": 50}):
        yield
        flush()


def bars(page: str) -> list[tuple[str, float, float, int]]:
    found = re.findall(
        r'<rect class="locks-hold-(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', page
    )
    return [(look, float(x), float(width), int(y)) for look, x, y, width in found]


def test_the_picture_has_past_holds_the_present_one_and_failed_waits(
    viewer: Client, kept: None
) -> None:
    with Lock("a", label="nightly"):
        pass
    with held("a"), waited_for("a"):
        (waiter,) = inspection.waiters()
        inspection.cancel(waiter)
        flush()
        page = text_of(viewer, page_of("a"))
    now, past = sorted(bars(page))
    assert ("now", "past") == (now[0], past[0])
    assert all(3500 < x <= 3601 for x in (now[1], past[1]))
    assert now[1] + now[2] > 3600, "it goes on beyond what shows"
    assert "nightly" in page
    assert 1 == page.count("locks-mark-trouble")
    assert "Holds that ended: 1, of which lost: 0. Holds that go on: 1." in page


def test_waits_are_drawn_those_that_ended_and_those_that_go_on(viewer: Client, kept: None) -> None:
    with held("a"), waited_for("a", "impatient"):
        before = state(viewer)
        with waited_for("a", "second"):
            page = text_of(viewer, page_of("a"))
            assert before != state(viewer)
    flush()
    lines = re.findall(
        r'<rect class="locks-wait" .*? width="([\d.]+)".*?<title>(.*?)</title>', page
    )
    assert ["impatient", "second"] == [title.rpartition("(")[2].strip(")") for _, title in lines]
    assert all(float(width) > 3600 for width, _ in lines), "they go on beyond what shows"
    ended = text_of(viewer, page_of("a"))
    assert 2 == ended.count('class="locks-wait"')
    assert 2 == ended.count(": waited for ")


def test_holds_at_the_same_time_have_lanes_of_their_own(viewer: Client, kept: None) -> None:
    with Semaphore("s", 2), Semaphore("s", 2):
        page = text_of(viewer, page_of("s"))
    first, second = bars(page)
    assert first[3] != second[3]


def test_the_picture_is_news_only_when_a_hold_is(viewer: Client, kept: None) -> None:
    with held("a"):
        states = [state(viewer) for _ in range(2)]
    flush()
    assert states[0] == states[1] != state(viewer)


def state(viewer: Client) -> str:
    answer = viewer.get(page_of("a", "live"))
    found: str = answer.json()["parts"]["timeline"]
    return found


def test_without_the_setting_the_page_names_it(viewer: Client) -> None:
    with held("unkept"):
        page = text_of(viewer, page_of("unkept"))
    assert 'REDIS_LOCKS["HISTORY"]' in page
    assert "Past holds are not kept" in page


def test_the_command_prints_past_holds(kept: None) -> None:
    assert "No hold of this lock has ended" in run("history", "a")[1]
    for label in ("first", "second"):
        with Lock("a", label=label):
            pass
    flush()
    header, second, first = run("history", "a")[0].splitlines()
    assert ["ENDED", "(UTC)", "HELD", "FOR", "OUTCOME", "HOLDER"] == header.split()
    assert ("(first)" in first, "(second)" in second) == (True, True)
    (latest,) = json.loads(run("history", "a", "--limit", "1", "--json")[0])
    assert "released" == latest["outcome"]
    assert "has 513 bytes" in fails("history", "x" * 513, code=64)


def test_the_command_names_the_setting() -> None:
    assert 'REDIS_LOCKS["HISTORY"] says how many' in run("history", "a")[1]
