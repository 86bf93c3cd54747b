"""The admin's page of one lock, of whatever name: who is there, who blocks whom, and the news of the pages."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import Lock
from tests import elsewhere
from tests.django.admin_pages import DATA, HOSTILE, LIST, page_of, rows, text_of, viewer
from tests.support import admin
from tests.support.admin import from_path, mode_text, to_path
from tests.support.parties import held, stand_in_a_chain, waited_for

__all__ = ["viewer"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_text_everywhere_and_has_its_own_page(
    viewer: Client, hostile: str
) -> None:
    with held(hostile, label=hostile), waited_for(hostile, hostile):
        listed = text_of(viewer, reverse(LIST))
        url = re.findall(r'<th scope="row"><a href="([^"]*)"', listed)[0]
        alone = text_of(viewer, url)
        news = viewer.get(page_of(hostile, "live")).json()["parts"]
    for html in (listed, alone, *news.values()):
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "\r" not in html.replace("\r\n", "\n")
    assert page_of(hostile) == url
    assert "Nobody" not in alone


def test_names_survive_their_way_through_a_path() -> None:
    assert HOSTILE == [from_path(to_path(name)) for name in HOSTILE]
    assert not {".", ".."} & {to_path(name) for name in HOSTILE}


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("exclusive", "exclusive"),
        ("shared", "shared"),
        ("permit:5", "permit, one of 5"),
        ("upgrade:0a1b", "exclusive, by upgrade"),
        ("no_key", "no_key"),
        ("intent:no_key", "no_key on rows"),
    ],
)
def test_modes_are_written_for_people(mode: str, text: str) -> None:
    assert text == mode_text(mode)


def test_sharers_are_all_shown(viewer: Client, name: str) -> None:
    with ExitStack() as stack:
        for label in ("first", "second", "third"):
            stack.enter_context(elsewhere.held(Lock(name, mode="shared", label=label)))
        (row,) = rows(text_of(viewer, reverse(LIST)))
        html = text_of(viewer, page_of(name))
    assert "and 2 more" in row
    assert all(label in html for label in ("first", "second", "third"))


def test_escapes_are_visible(viewer: Client) -> None:
    with held("first\nsecond\u202e"):
        assert r"first\nsecond\u202e" in text_of(viewer, reverse(LIST))


def test_a_name_that_cannot_name_a_lock_is_not_found(viewer: Client) -> None:
    assert 404 == viewer.get(page_of("x" * 513)).status_code
    assert 404 == viewer.get(page_of("x" * 513, "live")).status_code


def test_a_lock_s_page_shows_holder_and_queue_in_order(viewer: Client, name: str) -> None:
    with (
        held(name, label="nightly report") as hold,
        waited_for(name, "second"),
        waited_for(name, "third"),
    ):
        html = text_of(viewer, page_of(name))
    assert str(hold.fencing_token) in html
    assert html.index("nightly report") < html.index("second") < html.index("third")


def test_a_free_lock_s_page_waits_for_news(viewer: Client, name: str) -> None:
    assert "Nobody holds this lock or waits for it." in text_of(viewer, page_of(name))


def test_a_long_queue_is_cut(viewer: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.show_waiters(monkeypatch, 1)
    with held(name), waited_for(name, "second"), waited_for(name, "third"):
        html = text_of(viewer, page_of(name))
    assert "and 1 more" in html
    assert "third" not in html


def test_who_blocks_whom_reaches_over_locks(viewer: Client, name: str) -> None:
    inner = f"{name}:inner"
    with (
        held(name, label="top"),
        waited_for(name, "middle", holding=inner),
        waited_for(inner, "bottom"),
    ):
        html = text_of(viewer, page_of(inner))
    tree = html[html.index("Who blocks whom") :]
    assert tree.index("top") < tree.index("middle") < tree.index("bottom")


@pytest.mark.parametrize(("number", "cut"), [(0, True), (50, True), (99, False)])
def test_of_a_long_chain_each_page_shows_the_part_around_its_lock(
    viewer: Client, number: int, cut: bool
) -> None:
    stand_in_a_chain(100)
    html = text_of(viewer, page_of(f"lock:{number}"))
    assert f"waits for <bdi>lock:{number}</bdi>" in html
    assert cut == ("And more below" in html)


def test_with_too_many_locks_only_the_own_queue_is_in_the_tree(
    viewer: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.search_for_blockers(monkeypatch, 1)
    with held(name), held(f"{name}:other"), waited_for(name, "second"):
        assert "There are too many locks to look for others" in text_of(viewer, page_of(name))


def test_news_are_not_sent_again_when_nothing_changed(viewer: Client, name: str) -> None:
    for url in (reverse(DATA), page_of(name, "live")):
        with held(name) as hold:
            first = viewer.get(url)
            again = viewer.get(url, headers={"If-None-Match": first.headers["ETag"]})
            assert (200, 304, b"") == (first.status_code, again.status_code, again.content)
            hold.extend(90)
            extended = viewer.get(url, headers={"If-None-Match": first.headers["ETag"]})
            assert 200 == extended.status_code
        freed = viewer.get(url, headers={"If-None-Match": extended.headers["ETag"]})
        assert 200 == freed.status_code


def test_a_page_starts_with_the_state_that_its_news_would_tell(viewer: Client, name: str) -> None:
    with held(name):
        for page, live in ((reverse(LIST), reverse(DATA)), (page_of(name), page_of(name, "live"))):
            found = re.search(r'data-etag="([^"]+)"', text_of(viewer, page))
            assert found
            etag = found[1].replace("&quot;", '"')
            assert 304 == viewer.get(live, headers={"If-None-Match": etag}).status_code


def test_the_news_are_the_parts_of_the_page(viewer: Client, name: str) -> None:
    with held(name):
        parts = viewer.get(f"{reverse(DATA)}?q=test").json()["parts"]
        html = text_of(viewer, f"{reverse(LIST)}?q=test")
    assert {"summary", "results", "pages"} == set(parts)
    assert "<strong>1 lock</strong> matches" in parts["summary"]
    assert [key for part in (parts["results"], html) for key in re.findall(r'data-key="\S+"', part)]
    assert 'href="./?q=test&amp;o=held"' in parts["results"]


def test_numbers_are_written_for_programs_whatever_the_language(viewer: Client, name: str) -> None:
    with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True), held(name) as hold:
        html = text_of(viewer, page_of(name))
    assert str(hold.fencing_token) in html
    assert 'max="60.000"' in html
    assert re.search(r'data-now="\d+\.\d{3}"', html)


@pytest.mark.parametrize("view", ["list", "lock"])
def test_a_server_that_is_down_is_a_banner_and_503_for_the_script(
    viewer: Client, name: str, view: str
) -> None:
    page, live = (
        (reverse(LIST), reverse(DATA)) if view == "list" else (page_of(name), page_of(name, "live"))
    )
    with override_settings(REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/server.sock"}):
        html = text_of(viewer, page)
        news = viewer.get(live)
    assert re.search(r'role="alert" data-banner>Redis cannot be reached: [^<]*nonexistent', html)
    assert 503 == news.status_code
    assert "nonexistent" in news.json()["unreachable"]


def test_no_page_has_inline_scripts_styles_or_handlers(viewer: Client, name: str) -> None:
    with held(name), waited_for(name, "second"):
        for url in (reverse(LIST), page_of(name)):
            html = text_of(viewer, url)
            content = html[html.index('class="locks-page"') :]
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", content)


def test_the_history_of_a_lock_is_kept_when_it_is_free(viewer: Client, name: str) -> None:
    assert not LogEntry.objects.exists()
    assert name in text_of(viewer, page_of(name, "history"))
