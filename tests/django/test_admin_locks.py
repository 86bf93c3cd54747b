"""The admin's list of locks, and who may see it and the pages of locks."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.django.admin_pages import DATA, LIST, page_of, rows, staff, text_of, viewer
from tests.support import admin
from tests.support.parties import held, waited_for

__all__ = ["viewer"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


@pytest.mark.parametrize("view", [LIST, DATA])
def test_nobody_else_sees_the_locks(view: str) -> None:
    assert "/login/" in Client().get(reverse(view)).headers["Location"]
    assert 403 == staff().get(reverse(view)).status_code


@pytest.mark.parametrize("view", ["change", "live", "history"])
def test_nobody_else_sees_a_lock(name: str, view: str) -> None:
    assert "/login/" in Client().get(page_of(name, view)).headers["Location"]
    assert 403 == staff().get(page_of(name, view)).status_code


def test_the_admin_s_index_offers_locks_to_look_at(viewer: Client) -> None:
    html = text_of(viewer, reverse("admin:index"))
    assert "Redis locks" in html
    assert f'href="{reverse(LIST)}"' in html
    assert reverse("admin:redis_locks_lock_add") not in html


@pytest.mark.parametrize("view", ["add", "delete"])
def test_locks_are_not_added_or_deleted_by_hand(name: str, view: str) -> None:
    admin = Client()
    admin.force_login(User.objects.create_superuser("boss"))
    url = reverse("admin:redis_locks_lock_add") if view == "add" else page_of(name, view)
    assert 403 == admin.get(url).status_code
    assert 403 == admin.post(url, {"name": name}).status_code


def test_the_list_tells_who_holds_and_how_many_wait(viewer: Client, name: str) -> None:
    with held(name, label="nightly report") as hold, waited_for(name):
        (row,) = rows(text_of(viewer, reverse(LIST)))
    assert name in row
    assert "nightly report" in row
    assert "MainThread" in row
    assert "exclusive" in row
    assert "1 waiting" in row
    assert str(hold.fencing_token) in row
    assert re.search(r'<meter min="0" max="60.000" low="20.000"', row)


def test_without_locks_the_list_says_how_one_gets_there(viewer: Client) -> None:
    html = text_of(viewer, reverse(LIST))
    assert "No lock is held or waited for" in html
    assert "with redis_lock(" in html
    assert "CONNECTION" in html


@pytest.mark.parametrize(
    "query", ["q=no-such-name", "host=no-such-host", "held=60", "contended=on"]
)
def test_without_a_match_the_list_offers_to_clear_the_filters(
    viewer: Client, name: str, query: str
) -> None:
    with held(name):
        html = text_of(viewer, f"{reverse(LIST)}?{query}&o=held")
    assert "No lock matches" in html
    assert 'href="./?o=held"' in html


def test_the_list_is_filtered_and_ordered_by_its_address(viewer: Client) -> None:
    with held("account:1"), held("account:2"), held("report"), waited_for("account:2", "x"):
        address = reverse(LIST)
        everything = rows(text_of(viewer, address))
        queue_first = rows(text_of(viewer, f"{address}?o=queue"))
        accounts = rows(text_of(viewer, f"{address}?q=Account"))
        contended = rows(text_of(viewer, f"{address}?contended=on"))
        old = rows(text_of(viewer, f"{address}?held=3600"))
        elsewhere = rows(text_of(viewer, f"{address}?host=no-such-host"))
    assert [3, 2, 1, 0, 0] == [
        len(found) for found in (everything, accounts, contended, old, elsewhere)
    ]
    assert "account:2" in queue_first[0]
    assert "account:2" in contended[0]


@pytest.mark.parametrize("query", ["held=soon", "held=-1", "o=colour", "p=last", "p=" + "9" * 5000])
def test_a_wrong_address_shows_the_list_all_the_same(viewer: Client, name: str, query: str) -> None:
    with held(name):
        assert 1 == len(rows(text_of(viewer, f"{reverse(LIST)}?{query}")))


def test_the_list_has_pages(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.list_a_page(monkeypatch, 2)
    with held("a"), held("b"), held("c"):
        first = text_of(viewer, reverse(LIST))
        second = text_of(viewer, f"{reverse(LIST)}?p=2")
    assert "Page 1 of 2" in first
    assert 'href="./?p=2" rel="next"' in first
    assert (2, 1) == (len(rows(first)), len(rows(second)))
    assert 'rel="prev"' in second
    assert 'rel="next"' not in second


def test_the_list_says_how_many_it_did_not_look_at(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.search_the_list(monkeypatch, 1)
    with held("a"), held("b"):
        assert "1 were left out" in text_of(viewer, f"{reverse(LIST)}?o=held")
