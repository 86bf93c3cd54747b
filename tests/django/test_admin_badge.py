"""The badge on the admin's index: how many locks have waiters, for those who may see locks.

It never comes at the price of the index.
"""

from __future__ import annotations

import socket
import time

import pytest
from django.contrib import admin
from django.test import Client, override_settings
from django.urls import reverse

from tests.django.admin_pages import staff, text_of
from tests.support.admin import count_questions, register
from tests.support.parties import held, waited_for

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


def url() -> str:
    return reverse("admin:redis_locks_lock_badge")


def test_it_counts_the_locks_with_waiters(viewer: Client, name: str) -> None:
    first, second = (f"{name}:{number}" for number in (1, 2))
    with held(first), held(second), held(f"{name}:3"), waited_for(first), waited_for(first):
        assert {"locks": 1, "text": "1 lock with waiters"} == viewer.get(url()).json()


def test_the_index_asks_for_it_only_for_who_may_see_locks(viewer: Client) -> None:
    assert f'data-badge="{url()}"' in text_of(viewer, reverse("admin:index"))
    other = staff("view_user", name="other")
    assert "data-badge" not in text_of(other, reverse("admin:index"))
    assert 403 == other.get(url()).status_code


def test_the_index_itself_asks_redis_nothing(viewer: Client) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/server.sock"}):
        assert 200 == viewer.get(reverse("admin:index")).status_code


def test_a_server_that_does_not_answer_is_given_a_second(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_questions(monkeypatch)
    # The system takes the connection, and nobody ever reads from it.
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        override_settings(
            REDIS_LOCKS={"CONNECTION": f"redis://127.0.0.1:{silent.getsockname()[1]}/0"}
        ),
    ):
        started = time.monotonic()
        first, second = viewer.get(url()), viewer.get(url())
        took = time.monotonic() - started
    assert (204, 204) == (first.status_code, second.status_code)
    assert [1] == asked, "the second reader is told what the first one was"
    assert took < 10  # the machine may be slow


def test_an_index_template_of_the_project_stays() -> None:
    class Site(admin.AdminSite):
        index_template = "own.html"

    own, other = Site(name="own"), admin.AdminSite(name="other")
    for site in (own, other):
        register(site)
    assert "own.html" == own.index_template
    assert "admin/redis_locks/index.html" == other.index_template
