"""Several servers in the admin: each page is of the one that its address names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import inspection
from redis_locks.testing.server import EmbeddedServer
from tests.django.admin_pages import DATA, LIST, page_of, text_of
from tests.support.admin import mark_of
from tests.support.parties import held, waited_for

pytestmark = pytest.mark.django_db

BULK, DEADLOCKS, STATS = (
    f"admin:redis_locks_lock_{view}" for view in ("bulk", "deadlocks", "stats")
)
OF_BILLING = "?server=billing"


@pytest.fixture(scope="module")
def billing() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as server:
        yield server


@pytest.fixture(autouse=True)
def servers(billing: EmbeddedServer, name: str) -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "SERVERS": {"billing": billing.url}}):
        yield


def links(page: str) -> list[str]:
    """The addresses of lock pages to which a page leads, but by the choice of a server.

    Nor by Django's navigation, which is the same on all pages.
    """
    page = re.sub(r'<nav [^>]*id="nav-sidebar".*?</nav>', "", page, flags=re.DOTALL)
    rest = re.sub(r'<ul class="locks-orders locks-servers".*?</ul>', "", page, flags=re.DOTALL)
    hrefs = map(unescape, re.findall(r'href="([^"]*)"', rest))
    return [href for href in hrefs if href.startswith((reverse(LIST), "./"))]


def test_each_server_has_a_list_of_its_own(viewer: Client) -> None:
    with held("ours"), held("theirs", using="billing"):
        default, theirs = (
            text_of(viewer, reverse(LIST) + query) for query in ("?server=default", OF_BILLING)
        )
        shown = [
            [page_of(name) in page for name in ("ours", "theirs")] for page in (default, theirs)
        ]
        assert [[True, False], [False, True]] == shown
        # The poll of the page's script, which adds the page's query.
        news = viewer.get(reverse(DATA) + OF_BILLING).json()
        assert 1 == len(news["rows"])
        assert page_of("theirs") in str(news["html"])
    assert 'aria-current="true"><bdi>default</bdi>' in default
    assert 'aria-current="true"><bdi>billing</bdi>' in theirs


def test_a_server_that_there_is_not_is_not_found(viewer: Client, billing: EmbeddedServer) -> None:
    for wrong in ("bilings", billing.url, "redis://elsewhere"):
        assert 404 == viewer.get(reverse(LIST), {"server": wrong}).status_code


def test_every_link_stays_on_the_server(operator: Client) -> None:
    with held("a", using="billing"), held("b", using="billing"), waited_for("a", using="billing"):
        lock = inspection.locks(using="billing")[0]
        mark, waiter = mark_of(lock.holders[0].token), mark_of(lock.waiters[0].token)
        pages = [
            text_of(operator, url)
            for url in (
                f"{reverse(LIST)}{OF_BILLING}",
                f"{reverse(LIST)}{OF_BILLING}&q=a&group=on",
                f"{page_of('a')}{OF_BILLING}",
                f"{page_of('a', 'release')}{OF_BILLING}&party={mark}",
                f"{page_of('a', 'cancel')}{OF_BILLING}&party={waiter}",
                f"{page_of('a', 'history')}{OF_BILLING}",
                f"{reverse(BULK)}{OF_BILLING}&q=a",
                f"{reverse(DEADLOCKS)}{OF_BILLING}",
                f"{reverse(STATS)}{OF_BILLING}",
            )
        ]
    for page in pages:
        assert links(page)
        assert [] == [link for link in links(page) if "server=billing" not in link]
    assert "manage.py locks show a --using billing" in unescape(pages[2])
    for form in (pages[0], pages[-1]):
        assert '<input type="hidden" name="server" value="billing">' in form


def test_a_release_ends_the_hold_of_its_server_only(operator: Client) -> None:
    with held("a") as ours, held("a", using="billing") as theirs:
        ours_shown, shown = (page_of("a", "release") + query for query in ("", OF_BILLING))
        assert "<strong><bdi>billing</bdi></strong>" in text_of(operator, shown)
        form = {"reason": "stuck", "party": mark_of(theirs.token)}
        assert "nothing was" in operator.post(ours_shown, form, follow=True).content.decode()
        answer = operator.post(shown, form, follow=True)
        assert [(page_of("a") + OF_BILLING, 302)] == answer.redirect_chain
        assert not inspection.lock("a", using="billing")
        ours.check()
    assert LogEntry.objects.get().change_message.startswith("billing: Force-released; held by ")


def test_the_badge_counts_the_contended_locks_of_all_servers(
    viewer: Client, billing: EmbeddedServer, name: str
) -> None:
    badge = reverse("admin:redis_locks_lock_badge")
    with held("a", using="billing"), waited_for("a", using="billing"), held("b"), waited_for("b"):
        assert 2 == viewer.get(badge).json()["locks"]
    one_down = {"default": "unix:///no-server", "billing": billing.url}
    with (
        override_settings(REDIS_LOCKS={"PREFIX": name, "SERVERS": one_down}),
        held("a", using="billing"),
        waited_for("a", using="billing"),
    ):
        shown = viewer.get(badge).json()
        assert 1 == shown["locks"]
        assert shown["text"].startswith("1+ ")  # nobody knows of the other server's
