"""The admin's list of locks, and who may see it and the pages of locks."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from redis_locks.testing.server import EmbeddedServer
from tests.django.admin_pages import DATA, LIST, page_of, rows, staff, text_of
from tests.support import admin, stored
from tests.support.inspection import FEW
from tests.support.keys import lock_keys
from tests.support.parties import ask, held, waited_for

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


@pytest.mark.parametrize("view", [LIST, DATA])
def test_nobody_else_sees_the_locks(view: str) -> None:
    assert "/login/" in Client().get(reverse(view)).headers["Location"]
    assert 403 == staff().get(reverse(view)).status_code


@pytest.mark.parametrize("view", ["change", "live", "history"])
def test_nobody_else_sees_a_lock(name: str, view: str) -> None:
    assert "/login/" in Client().get(page_of(name, view)).headers["Location"]
    assert 403 == staff().get(page_of(name, view)).status_code


@pytest.mark.parametrize("view", ["add", "delete"])
def test_locks_are_not_added_or_deleted_by_hand(name: str, view: str) -> None:
    admin = Client()
    admin.force_login(User.objects.create_superuser("boss"))
    url = reverse("admin:redis_locks_lock_add") if view == "add" else page_of(name, view)
    assert 403 == admin.get(url).status_code
    assert 403 == admin.post(url, {"name": name}).status_code


def test_the_list_tells_who_holds_and_how_many_wait(viewer: Client, name: str) -> None:
    with held(name, label="nightly report"), waited_for(name):
        (row,) = rows(text_of(viewer, reverse(LIST)))
    assert name in row
    assert "nightly report" in row
    assert "MainThread" in row
    assert "1 waiting" in row
    assert "60 s" in row
    assert "Not renewed" not in row


def test_the_list_has_a_lock_of_another_protocol_and_no_form_offers_to_end_it(
    admin_client: Client, redis_server: EmbeddedServer, name: str
) -> None:
    with (
        redis_server.client() as client,
        held(name),
        stored.held_by_another_protocol(client, lock_keys(name, 0, name).lock),
    ):
        (row,) = rows(text_of(admin_client, reverse(LIST)))
        assert name in row
        assert "django-redis-locks with protocol 2" in row
        assert "speaks protocol 2" in text_of(admin_client, page_of(name))
        nothing_to_end = admin_client.get(reverse("admin:redis_locks_lock_bulk"))
    assert 302 == nothing_to_end.status_code


def test_the_list_is_filtered_and_ordered_by_its_address(viewer: Client) -> None:
    with held("account:1"), held("account:2"), held("report"), waited_for("account:2", "x"):
        address = reverse(LIST)
        everything = rows(text_of(viewer, address))
        by_name = rows(text_of(viewer, f"{address}?o=name"))
        pattern = rows(text_of(viewer, f"{address}?q=ACCOUNT:*"))
        by_label = rows(text_of(viewer, f"{address}?q=x&contended=on"))
        accounts = rows(text_of(viewer, f"{address}?q=Account"))
        contended = rows(text_of(viewer, f"{address}?contended=on"))
        old = rows(text_of(viewer, f"{address}?held=3600"))
        elsewhere = rows(text_of(viewer, f"{address}?host=no-such-host"))
    assert [3, 2, 1, 0, 0] == [
        len(found) for found in (everything, accounts, contended, old, elsewhere)
    ]
    assert "account:2" in everything[0]
    assert "account:1" in by_name[0]
    assert (2, 1) == (len(pattern), len(by_label))
    assert "account:2" in contended[0]


@pytest.mark.parametrize("query", ["held=soon", "held=-1", "o=colour", "p=last", "p=" + "9" * 5000])
def test_a_wrong_address_shows_the_list_all_the_same(viewer: Client, name: str, query: str) -> None:
    with held(name):
        assert 1 == len(rows(text_of(viewer, f"{reverse(LIST)}?{query}")))


def test_the_list_has_pages(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.list_a_page(monkeypatch, 2)
    with held("a"), held("b"), held("c"):
        first = text_of(viewer, reverse(LIST))
        second = text_of(viewer, f"{reverse(LIST)}?p=2&o=name")
    assert "Page 1 of 2" in first
    assert 'href="./?p=2" rel="next"' in first
    assert (2, 1) == (len(rows(first)), len(rows(second)))
    assert 'rel="prev"' in second
    assert 'rel="next"' not in second


def test_a_list_that_took_long_to_read_is_kept_for_ten_times_as_long(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.keep_surveys(monkeypatch, slower_than=0.1)
    pass_by = admin.read_surveys(monkeypatch, in_seconds=0.2)
    with held("a"):
        before = len(rows(text_of(viewer, reverse(LIST))))
        with held("b"):
            pass_by(1.9)
            meanwhile = len(rows(text_of(viewer, reverse(LIST))))
            pass_by(0.2)
            after = len(rows(text_of(viewer, reverse(LIST))))
    assert (1, 1, 2) == (before, meanwhile, after)


def test_the_head_says_what_is_stuck_and_since_when(viewer: Client) -> None:
    calm = text_of(viewer, reverse(LIST))
    assert "No lock is held." in calm
    with held("account:1"), held("report"), waited_for("account:1"):
        html = text_of(viewer, reverse(LIST))
    assert re.search(r"1 waiter at 1 lock\. The oldest wait: <strong data-since=\"[\d.]+\">", html)
    assert re.search(r"<dt>Held</dt><dd><a href=[^>]*>2</a></dd>", html)
    assert re.search(r"<dt>(Redis|Valkey) [\d.]+</dt><dd>[^<]*noeviction", html)


def test_locks_with_alike_names_are_one_group(viewer: Client) -> None:
    with held("account:1"), held("account:22"), held("report"), waited_for("account:22"):
        found = rows(text_of(viewer, f"{reverse(LIST)}?group=on"))
    assert 2 == len(found)
    assert ">account:*<" in found[0]
    assert "1 waiting" in found[0]
    assert 'href="./?q=account%3A%2A"' in found[0]


def test_a_group_counts_more_locks_than_a_page_of_trouble_looks_at(viewer: Client) -> None:
    count = FEW + 600
    ask(((f"account:{number}", f"holder{number}.1") for number in range(count)), wait=0)
    html = text_of(viewer, f"{reverse(LIST)}?group=on")
    (row,) = rows(html)
    assert f">{count:,}<" in re.sub(r"\s", "", row)
    assert f"<strong>{count:,} locks</strong>" in html
    # A page of trouble says that it does not know them all.
    assert f"of {count:,}" in text_of(viewer, reverse(LIST))
