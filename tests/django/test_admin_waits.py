"""Waits in progress on the admin's page of figures: by lock, by template, by the holder's work."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.django.admin_pages import page_of, text_of
from tests.support.admin import KNOWN
from tests.support.parties import held, waited_for

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]

STATS = "admin:redis_locks_lock_stats"
WAITS = "admin:redis_locks_lock_waits"


def tables(html: str) -> list[list[tuple[str, int]]]:
    """The rows of each table: name and number of waiters."""
    section = html[html.index('id="waits-title"') :].partition("</section>")[0]
    row = re.compile(r'<tr class.*?<bdi>(.*?)</bdi>.*?"locks-number">(\d+)<', re.DOTALL)
    return [
        [(name, int(count)) for name, count in row.findall(table)]
        for table in section.split("<table")[1:]
    ]


def test_waits_are_counted_by_lock_template_and_holder(viewer: Client) -> None:
    with (
        held("account:1", label="POST /pay"),
        held("account:2", label="nightly"),
        held("report", label="nightly"),
        held("quiet", label="other"),
        waited_for("account:2"),
        waited_for("account:1"),
        waited_for("account:1"),
        waited_for("report"),
    ):
        html = text_of(viewer, reverse(STATS))
        found = text_of(viewer, reverse(STATS) + "?q=report")
    assert [
        [("account:2", 1), ("account:1", 2), ("report", 1)],
        [("account:*", 3), ("report", 1)],
        [("nightly", 2), ("POST /pay", 2)],
    ] == tables(html)
    assert "4 waiters at 3 locks." in html
    assert f'href="{page_of("account:2")}"' in html
    assert "?q=account%3A%2A&amp;contended=on" in html
    assert [[("report", 1)], [("report", 1)], [("nightly", 1)]] == tables(found)


def test_the_news_are_small_and_no_running_clock_is_among_them(viewer: Client, name: str) -> None:
    with held(name), waited_for(name):
        first = viewer.get(reverse(WAITS))
        etag = first.headers["ETag"]
        again = viewer.get(reverse(WAITS), headers={"if-none-match": etag})
        known = viewer.get(reverse(WAITS), headers={KNOWN: first.json()["parts"]["waits"]})
        with waited_for(name):
            more = viewer.get(reverse(WAITS), headers={"if-none-match": etag})
    assert (304, b"") == (again.status_code, again.content)
    assert {} == known.json()["html"]
    (html,) = more.json()["html"].values()
    assert "2 waiters at 1 lock." in html
