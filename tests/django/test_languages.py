"""People see their language, their zone's times, their form of numbers.

Logs and commands are English.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, modify_settings, override_settings
from django.urls import reverse
from django.utils import timezone, translation

from redis_locks import Lock, LockBackendError, LockError, LockNotAvailable, inspection
from redis_locks.middleware import lock_responses
from tests.django.admin_pages import LIST, page_of, text_of
from tests.support.admin import mark_of
from tests.support.parties import held, waited_for
from tests.support.statistics import flush

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]

locale_middleware = modify_settings(
    MIDDLEWARE={"append": "django.middleware.locale.LocaleMiddleware"}
)


@pytest.fixture(autouse=True)
def no_language_is_left_active() -> Iterator[None]:
    """A request leaves its language active in its thread, which is ours."""
    yield
    translation.deactivate()


def content(html: str) -> str:
    """What is ours of a page."""
    return html[html.index('<div id="content-main"') : html.index('<footer id="footer"')]


def words(html: str) -> set[str]:
    """The words that a page shows or tells to screen readers, less what `marked` has marked."""
    told = re.findall(r'(?:aria-label|title|placeholder|data-label|data-say)="([^"]*)"', html)
    shown = re.sub(r"<(code|pre|kbd|svg)\b.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL)
    text = unescape(" ".join([shown, *told]))
    text = re.sub(
        r"test(:|_3A)[0-9a-f]{32}", " ", text
    )  # the names of locks, of other tests as well
    while (less := re.sub(r"⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = less
    return set(re.findall(r"[A-Za-z]{3,}", text))


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark what goes through gettext."""
    functions: dict[str, Any] = {
        "gettext": lambda text: f"⟦{text}⟧",
        "pgettext": lambda _context, text: f"⟦{text}⟧",
        "ngettext": lambda one, many, number: f"⟦{one if number == 1 else many}⟧",
        "npgettext": lambda _context, one, many, number: f"⟦{one if number == 1 else many}⟧",
    }
    for name, function in functions.items():
        getattr(translation, name)  # Django puts them there when they are first asked for
        monkeypatch.setattr(translation._trans, name, function)


@pytest.mark.parametrize("statistics", [True, False])
def test_no_text_of_a_page_bypasses_gettext(
    operator: Client, marked: None, name: str, *, statistics: bool
) -> None:
    flush()  # what other tests have counted goes to their part of the server
    data = f"{name} {socket.gethostname()} thread MainThread runner waiter nobody zzz"
    allowed = set(re.findall(r"[A-Za-z]{3,}", data)) | {
        "CSV",
        "JSON",
        "UTC",
        "min",
        "pid",
        "noeviction",
        "Redis",
        "Valkey",
    }
    with override_settings(
        REDIS_LOCKS={"PREFIX": name, "STATISTICS": statistics, "HISTORY": 9 * statistics}
    ):
        empty = [LIST, "admin:redis_locks_lock_stats"]
        found = {url: words(content(text_of(operator, reverse(url)))) - allowed for url in empty}
        with held(name, label="runner"), waited_for(name, "waiter"):
            flush()
            (waiter,) = inspection.parties().waiters
            (holder,) = inspection.parties().holders
            for url in (
                reverse(LIST),
                f"{reverse(LIST)}?q=zzz&contended=on&waited=9&held=9&stale=on&host=zzz",
                f"{reverse(LIST)}?group=on",
                f"{reverse('admin:redis_locks_lock_bulk')}?q={name}",
                reverse("admin:redis_locks_lock_stats"),
                page_of(name),
                page_of("nobody"),
                f"{page_of(name, 'release')}?party={mark_of(holder.token)}",
                f"{page_of(name, 'cancel')}?party={mark_of(waiter.token)}",
            ):
                found[url] = words(content(text_of(operator, url))) - allowed
    assert {} == {url: left for url, left in found.items() if left}


@pytest.mark.parametrize(
    ("language", "title", "story"),
    [
        ("de", "Sperren | ", r"Seit .*s gehalten von nightly auf .*Niemand wartet\."),
        ("fr", "Verrous | ", r"Détenu depuis .*s par nightly sur .*Personne n'attend\."),
    ],
)
def test_pages_and_their_news_are_in_the_language_of_the_user(
    operator: Client, name: str, language: str, title: str, story: str
) -> None:
    with locale_middleware, held(name, label="nightly"):
        operator.defaults["HTTP_ACCEPT_LANGUAGE"] = language
        assert title in text_of(operator, reverse(LIST))
        news = operator.get(page_of(name, "live")).json()
        told = re.sub("<[^>]*>", "", unescape(news["html"][news["parts"]["story"]]))
        assert re.search(story, told, re.DOTALL)
        other = operator.get(page_of(name, "live"), headers={"accept-language": "en"}).json()
    assert other["parts"]["story"] != news["parts"]["story"], "what a page has is not taken for it"


def test_what_the_script_says_is_in_the_language_of_the_user(operator: Client) -> None:
    with override_settings(LANGUAGE_CODE="de"):
        html = text_of(operator, reverse(LIST))
    texts = json.loads(unescape(re.search(r'data-texts="([^"]*)"', html)[1]))  # type: ignore[index]
    assert "Aktualisierung anhalten" == texts["pause"]
    assert "," == texts["decimal"]
    assert {"%(ago)s", "%(left)s"} == set(re.findall(r"%\(\w+\)s", texts["stale"]))


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_in_the_current_time_zone_and_for_programs_in_utc(
    operator: Client, name: str, *, use_tz: bool
) -> None:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "HISTORY": 9}, USE_TZ=use_tz):
        with Lock(name):
            pass
        flush()
        with timezone.override("Asia/Tokyo"):
            html = text_of(operator, page_of(name))
            figures = text_of(operator, reverse("admin:redis_locks_lock_stats"))
    found = re.search(r'<time datetime="([^"]+)" title="([^"]+) UTC">([^<]+) JST</time>', html)
    assert found
    assert found[1].endswith("+00:00")
    assert found[1][11:19] == found[2][11:]
    assert (int(found[2][11:13]) + 9) % 24 == int(found[3][-8:-6]), "nine hours later"
    assert re.search(r"<title>\d\d:\d\d:\d\d JST: held for", html)
    assert re.search(r"<title>\d\d:\d\d JST: \d+ acquired", figures)


def test_a_message_is_in_the_users_language_and_the_log_in_that_of_the_site(
    operator: Client, name: str
) -> None:
    with locale_middleware, held(name):
        (holder,) = inspection.parties().holders
        posted = {"reason": "hängt", "party": mark_of(holder.token)}
        operator.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
        answer = operator.post(page_of(name, "release"), posted, follow=True)
    assert "Freigabe erzwungen; die Sperre wurde gehalten von" in answer.content.decode()
    entry = LogEntry.objects.get()
    assert entry.change_message.startswith("Force-released; held by")
    assert entry.change_message.endswith("Reason: hängt")


@pytest.mark.parametrize("media_type", ["text/html", "text/plain", "application/json"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LockNotAvailable("x"), "Quelqu'un d'autre est en train de modifier ceci."),
        (LockBackendError("x"), "Cette action ne peut pas être exécutée sans risque"),
    ],
)
def test_an_answer_is_in_the_language_of_the_client(
    error: LockError, text: str, media_type: str
) -> None:
    request: HttpRequest = RequestFactory().get("/", headers={"accept": media_type})
    with translation.override("fr"):
        answer: Any = lock_responses(lambda _: HttpResponse()).process_exception(request, error)
    told = answer.content.decode()
    told = json.loads(told)["detail"] if media_type == "application/json" else unescape(told)
    assert text in told
    assert "Accept-Language" in answer["Vary"]
