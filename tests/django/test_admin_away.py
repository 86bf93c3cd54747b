"""What the pages of a single server say of it while it does not answer, and after that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.django.admin_pages import DATA, LIST, text_of
from tests.support.breakers import breaker_at, open_it, stopped
from tests.support.statistics import flush
from tests.support.waiting import until

pytestmark = pytest.mark.django_db


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with (
        EmbeddedServer(use_environment=False) as found,
        override_settings(REDIS_LOCKS={"CONNECTION": f"{found.url}?socket_timeout=0.5"}),
    ):
        yield found


def test_they_say_since_when_and_how_many_calls_failed(
    server: EmbeddedServer, viewer: Client, name: str
) -> None:
    url = f"{server.url}?socket_timeout=0.5"
    with stopped(server):
        open_it(Lock(name), url)
        news = viewer.get(reverse(DATA))
        page = viewer.get(reverse(LIST)).content.decode()
    assert 503 == news.status_code
    for shown in (news.json()["unreachable"], page):
        assert "has not answered this process since" in shown
        assert "of its calls have failed, and further ones fail at once" in shown
    until(lambda: not breaker_at(url).is_open)
    flush()
    assert "Redis away" in text_of(viewer, reverse("admin:redis_locks_lock_stats"))
