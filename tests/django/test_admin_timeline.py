"""The past holds of a lock: as a picture on its page, and as `manage.py locks history`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from redis_locks import Lock, inspection
from tests.django.admin_pages import page_of, text_of
from tests.django.command_calls import fails, run
from tests.support.parties import held, waited_for
from tests.support.statistics import flush, note_past_holds

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(name: str) -> Iterator[None]:
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name, "HISTORY": 50}):
        yield
        flush()


def bars(page: str) -> list[tuple[str, float, float, int]]:
    found = re.findall(
        r'<rect class="locks-hold-(\w+)(?: locks-hold-long)?" '
        r'x="([\d.]+)" y="(\d+)" width="([\d.]+)"',
        page,
    )
    return [(look, float(x), float(width), int(y)) for look, x, y, width in found]


def test_the_picture_has_past_holds_the_present_one_and_failed_waits(
    viewer: Client, kept: None
) -> None:
    with Lock("a", label="nightly"):
        pass
    with held("a"), waited_for("a"):
        (waiter,) = inspection.parties().waiters
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


def past_holds(html: str) -> list[list[str]]:
    """The cells of the table of past holds, as text."""
    _, _, section = html.partition('aria-labelledby="past-title"')
    rows = re.findall(r"<tr.*?</tr>", section.partition("</section>")[0], re.DOTALL)[1:]
    cells = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in row] for row in cells]


@pytest.mark.parametrize(("span", "shown"), [("5m", 1), ("", 2), ("24h", 3), ("nonsense", 2)])
def test_the_address_says_how_far_back_chart_and_table_go(
    viewer: Client, kept: None, span: str, shown: int
) -> None:
    note_past_holds("a", (60, 5, "released"), (1800, 5, "released"), (40_000, 5, "released"))
    html = text_of(viewer, f"{page_of('a')}?span={span}")
    assert shown == len(bars(html))
    assert shown == len(past_holds(html))
    box = {"5m": 300, "24h": 86_400}.get(span, 3600)
    assert f'viewBox="0 0 {box} ' in html
    (chosen,) = re.findall(r'locks-on" aria-current="true">(.*?)<', html)
    assert chosen == {"5m": "5 min", "24h": "24 h"}.get(span, "1 h")
    news = viewer.get(f"{page_of('a', 'live')}?span={span}").json()
    assert all(f'data-state="{state}"' in html for state in news["parts"].values())


def test_past_holds_are_a_table_of_who_when_how_long_and_how_it_ended(
    viewer: Client, kept: None
) -> None:
    note_past_holds("a", (20, 12, "released"), (10, 3, "lost"))
    lost, released = past_holds(text_of(viewer, page_of("a")))
    assert [("worker 1", "3.0s", "lost", "101"), ("worker 0", "12.0s", "released", "100")] == [
        tuple(cells[1:]) for cells in (lost, released)
    ]
    assert re.search(r"\d\d:\d\d:\d\d", lost[0])


def test_a_hold_that_exceeds_the_usual_is_marked_in_chart_and_table(
    viewer: Client, kept: None
) -> None:
    usual = [(float(ago), 0.2, "released") for ago in range(20, 60)]
    note_past_holds("a", (10, 4.0, "released"), *usual)
    html = text_of(viewer, page_of("a"))
    assert 1 == html.count("locks-hold-long")
    assert "Longer than usual: 1." in html
    marked = [cells for cells in past_holds(html) if "longer than usual" in cells[2]]
    assert ["worker 0"] == [cells[1] for cells in marked]


def test_holds_that_were_handed_over_stand_in_one_lane(viewer: Client, kept: None) -> None:
    # Each process tells of the hand-off by its own clock.
    note_past_holds("a", (10.0, 5.0, "released"), (5.0, 5.02, "released"))
    first, second = bars(text_of(viewer, page_of("a")))
    assert first[3] == second[3]


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
