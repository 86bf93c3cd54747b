"""The admin's page of one lock, of any name: who is there, who blocks whom, and live news."""

from __future__ import annotations

import re
import time

import pytest
import redis
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import inspection
from tests.django.admin_pages import DATA, HOSTILE, LIST, page_of, rows, staff, text_of
from tests.support import admin
from tests.support.admin import mark_of, mode_text
from tests.support.keys import lock_keys
from tests.support.parties import MINUTES, ask, held, stand_in_a_chain, waited_for
from tests.support.world import existing, until

BULK = "admin:redis_locks_lock_bulk"
STATS = "admin:redis_locks_lock_stats"
DEADLOCKS = "admin:redis_locks_lock_deadlocks"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_text_everywhere_and_has_its_own_page(
    viewer: Client, hostile: str
) -> None:
    with held(hostile, label=hostile), waited_for(hostile, hostile):
        listed = text_of(viewer, reverse(LIST))
        url = re.findall(r'<th scope="row"><a href="([^"]*)"', listed)[0]
        alone = text_of(viewer, url)
        news = viewer.get(page_of(hostile, "live")).json()["html"]
    for html in (listed, alone, *news.values()):
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "\r" not in html.replace("\r\n", "\n")
    assert page_of(hostile) == url
    assert "Nobody" not in alone


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("permit:5", "permit, one of 5"),
        ("upgrade:0a1b", "exclusive, by upgrade"),
        ("intent:no_key", "no_key on rows"),
    ],
)
def test_modes_are_written_for_people(mode: str, text: str) -> None:
    assert text == mode_text(mode)


def test_a_name_that_cannot_name_a_lock_is_not_found(viewer: Client) -> None:
    assert 404 == viewer.get(page_of("x" * 513)).status_code
    assert 404 == viewer.get(page_of("x" * 513, "live")).status_code


def test_a_holder_of_several_that_is_gone_is_told_though_another_has_held_for_longer(
    viewer: Client, name: str
) -> None:
    with held(name, mode="shared", label="lives"):
        ask([(name, "nobody.1")], wait=0, mode="shared")
        told = "One of the holders, many on web-1, is not connected"
        until(lambda: told in text_of(viewer, page_of(name)))
        html = text_of(viewer, page_of(name))
        listed = text_of(viewer, reverse(LIST))
    assert "The other holds stay." in html
    assert "A holder of" in listed
    inspection.force_release(name)


def test_a_queued_task_s_lock_is_nobody_s_whose_process_could_be_gone(
    viewer: Client, name: str
) -> None:
    queued = f"queued:{name}"
    ask([(queued, "nobody.1"), (name, "nobody.2")], wait=0)
    until(lambda: "is not connected" in text_of(viewer, page_of(name)))
    html = text_of(viewer, page_of(queued))
    assert "is not connected" not in html
    assert "A task that is queued or runs holds this lock." in html


def test_a_deadlock_is_told(viewer: Client, name: str) -> None:
    other = f"{name}:other"
    ask([(name, "first.1"), (other, "second.1")], wait=0)
    ask([(other, "first.2"), (name, "second.2")], wait=MINUTES)
    assert "This is a deadlock" in text_of(viewer, page_of(name))


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


@pytest.mark.parametrize(("number", "cut"), [(0, True), (99, False)])
def test_of_a_long_chain_each_page_shows_the_part_around_its_lock(
    viewer: Client, number: int, cut: bool
) -> None:
    stand_in_a_chain(100)
    html = text_of(viewer, page_of(f"lock:{number}"))
    assert f"waits for <bdi>lock:{number}</bdi>" in html
    assert cut == ("And more below" in html)


def test_news_are_not_sent_again_when_nothing_changed(viewer: Client, name: str) -> None:
    for url in (reverse(DATA), page_of(name, "live")):
        with held(name) as hold:
            first = viewer.get(url)
            known = {"If-None-Match": first.headers["ETag"]}
            again = viewer.get(url, headers=known)
            assert (200, 304, b"") == (first.status_code, again.status_code, again.content)
            # A renewal in time is no news, or a page of busy locks would be sent again and again.
            hold.extend(60)
            assert 304 == viewer.get(url, headers=known).status_code
            with waited_for(name):
                assert 200 == viewer.get(url, headers=known).status_code
        freed = viewer.get(url, headers=known)
        assert 200 == freed.status_code


def test_the_news_have_only_the_pieces_that_the_asker_does_not_have(viewer: Client) -> None:
    with held("a"), held("b"):
        first = viewer.get(reverse(DATA)).json()
        known = ",".join((*first["parts"].values(), *first["rows"]))
        with waited_for("b"):
            news = viewer.get(reverse(DATA), headers={admin.KNOWN: known})
    changed = set(news.json()["html"])
    assert news.json()["rows"][0] in changed
    assert first["rows"][0] == news.json()["rows"][1]
    assert first["rows"][0] not in changed
    assert first["parts"]["filters"] not in changed


@pytest.mark.timed
def test_ten_thousand_locks_are_listed_in_half_a_second_of_work(viewer: Client) -> None:
    ask(((f"account:{number:05}", f"token{number}.1") for number in range(10_000)), wait=0)
    # Its waiter tells that it waits for long already.
    looks: list[tuple[float, str]] = []

    def is_first() -> bool:
        started = time.process_time()
        html = text_of(viewer, reverse(LIST))
        looks.append((time.process_time() - started, html))
        return "account:07777" in rows(html)[0]

    with waited_for("account:07777", lease=1):
        until(is_first)
    worked, html = looks[-1]
    assert "Of 10,000 locks, this looked at 500" in html
    assert 100 == len(rows(html))
    assert worked < 0.5


@pytest.mark.parametrize("rights", [(), ("release_lock", "cancel_waiter")])
def test_nobody_is_shown_the_token_of_a_hold_or_of_a_wait(
    name: str, rights: tuple[str, ...]
) -> None:
    """A token is the proof of a hold: with it, and with Redis, one can release or extend it."""
    browser = staff("view_lock", *rights)
    with held(name), waited_for(name):
        lock = existing(name)
        parties = (*lock.holders, *lock.waiters)
        urls = [reverse(LIST), reverse(DATA), f"{reverse(LIST)}?q={name}&group=on"]
        urls += [page_of(name, view) for view in ("change", "live", "history")]
        stats = reverse(STATS)
        urls.append(stats)
        if rights:
            urls += [page_of(name, "release"), f"{reverse(BULK)}?q={name}"]
            urls += [f"{page_of(name, 'cancel')}?party={mark_of(lock.waiters[0].token)}"]
        for url in urls:
            told = text_of(browser, url)
            assert not [party for party in parties if party.token in told], url
            assert not [party for party in parties if party.session in told], url


def test_a_server_that_answers_is_not_said_to_be_out_of_reach(
    viewer: Client, name: str, client: redis.Redis
) -> None:
    key = lock_keys(name, 0, name).lock
    client.set(key, "theirs")
    html = text_of(viewer, page_of(name))
    client.delete(key)
    assert "Redis could not answer." in html
    assert "a key of another type" in html
    assert "cannot be reached" not in html


@pytest.mark.parametrize("view", ["list", "lock"])
def test_a_server_that_is_down_is_a_banner_and_503_for_the_script(
    viewer: Client, name: str, view: str
) -> None:
    page, live = (
        (reverse(LIST), reverse(DATA)) if view == "list" else (page_of(name), page_of(name, "live"))
    )
    with override_settings(REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/server.sock"}):
        html = text_of(viewer, page)
        others = [text_of(viewer, reverse(each)) for each in (STATS, DEADLOCKS)]
        news = viewer.get(live)
    banner = r'role="alert" data-banner-text>Redis could not answer\.<'
    assert all(re.search(banner, each) for each in (html, *others))
    assert re.search(r"data-banner-detail>[^<]*nonexistent", html)
    assert 503 == news.status_code
    assert "nonexistent" in news.json()["unreachable"]


def test_no_page_has_inline_scripts_styles_or_handlers(viewer: Client, name: str) -> None:
    with held(name), waited_for(name, "second"):
        for url in (reverse(LIST), page_of(name)):
            html = text_of(viewer, url)
            content = html[html.index('class="locks-page ') :]
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", content)


def test_the_operators_log_has_who_did_what_and_why_latest_first(name: str) -> None:
    operator = staff("view_lock", "release_lock")
    for reason in ("first", "<b>second"):
        with held(name):
            (holder,) = inspection.parties().holders
            posted = {"reason": reason, "party": mark_of(holder.token)}
            operator.post(page_of(name, "release"), posted)
    log = text_of(operator, page_of(name, "history"))
    assert ["Reason: &lt;b&gt;second<", "Reason: first<"] == re.findall(r"Reason: .*?<", log)
    assert 2 == log.count("<bdi>staff</bdi>")
