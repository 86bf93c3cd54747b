"""The panel of django-debug-toolbar: the locks of one request, in sync and async views."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import include, path

from redis_locks import Lock, LockBackendError, LockNotAvailable, redis_lock
from redis_locks.integrations import debug_toolbar as panel
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.testing import held, override_locks
from tests.support import stored
from tests.support.world import PATIENCE, Observer, granted, keys_of, until

View = Callable[[HttpRequest], Any]

PAGE = "<html><body></body></html>"

current: list[View] = []
"""What the page runs: the test's own view."""


def sync_page(request: HttpRequest) -> HttpResponse:
    current[0](request)
    return HttpResponse(PAGE)


async def async_page(request: HttpRequest) -> HttpResponse:
    await current[0](request)
    return HttpResponse(PAGE)


urlpatterns = [path("sync", sync_page), path("async", async_page)]
"""And the toolbar's, once its app is installed."""


def show_toolbar(request: HttpRequest) -> bool:
    return True


@pytest.fixture(autouse=True)
def _toolbar(settings: Any) -> Iterator[None]:
    with override_settings(
        INSTALLED_APPS=[*settings.INSTALLED_APPS, "debug_toolbar"],
        MIDDLEWARE=["debug_toolbar.middleware.DebugToolbarMiddleware"],
        DEBUG_TOOLBAR_PANELS=["redis_locks.integrations.debug_toolbar.LocksPanel"],
        DEBUG_TOOLBAR_CONFIG={"SHOW_TOOLBAR_CALLBACK": show_toolbar, "RENDER_PANELS": False},
        ROOT_URLCONF=__name__,
    ):
        urlpatterns[2:] = [path("__debug__/", include("debug_toolbar.urls"))]
        yield


@pytest.fixture(autouse=True)
def _nobody_listens_in_the_end() -> Iterator[None]:
    before = {kind: len(signal.receivers) for kind, signal in LOCK_SIGNALS.items()}
    yield
    # A receiver of an earlier test may have gone meanwhile: signals refer to theirs weakly.
    more = {kind for kind, signal in LOCK_SIGNALS.items() if len(signal.receivers) > before[kind]}
    assert set() == more


class Row(NamedTuple):
    lock: str
    in_the_way: str
    waited: str
    outcome: str
    held: str
    mode: str
    fencing_token: str

    @property
    def facts(self) -> tuple[str, str, str]:
        return self.lock, self.mode, self.outcome


class Shown:
    """The panel as the browser gets it: the button, and the content that it asks for."""

    def __init__(self, page: str) -> None:
        (request_id,) = re.findall(r'data-request-id="(\w+)"', page)
        button = re.search(r'<li id="djdt-LocksPanel".*?</li>', page, re.DOTALL)
        assert button
        self.button = _text(button[0])
        asked = {"request_id": request_id, "panel_id": "LocksPanel"}
        self.content: str = Client().get("/__debug__/render_panel/", asked).json()["content"]
        self.rows = [
            Row(*map(_text, re.findall(r"<td.*?</td>", row, re.DOTALL)[1:]))
            for row in re.findall(r'<tr id="redisLocksMain.*?</tr>', self.content, re.DOTALL)
        ]
        self.stacks = re.findall(r'<pre class="djdt-stack">(.*?)</pre>', self.content, re.DOTALL)


def _text(markup: str) -> str:
    return html.unescape(" ".join(re.sub("<[^>]*>", " ", markup).split()))


def shown(view: View) -> Shown:
    """Handle a request with `view`, sync or async; what the toolbar shows of it."""
    current[:] = [view]
    if asyncio.iscoroutinefunction(view):
        response = async_to_sync(AsyncClient().get)("/async")
    else:
        response = Client().get("/sync")
    return Shown(response.content.decode())


def milliseconds(text: str) -> float:
    return float(text.removesuffix(" ms"))


def test_a_sync_view_shows_what_it_took_and_where(name: str) -> None:
    tokens = []

    def take(request: HttpRequest) -> None:
        with redis_lock(name) as hold:
            tokens.append(str(hold.fencing_token))

    page = shown(take)
    (row,) = page.rows
    assert ((name, "exclusive", "released"), "") == (row.facts, row.waited)
    assert 0 < milliseconds(row.held) < PATIENCE * 1000
    assert (*tokens, "") == (row.fencing_token, row.in_the_way)
    assert "Locks 1 acquire, waited 0.0 ms" == page.button
    (stack,) = page.stacks
    innermost = _text(stack.strip().split("\n\n")[-1])
    assert "test_debug_toolbar.py in take" in innermost
    assert "with redis_lock(name) as hold:" in innermost


def test_an_async_view_shows_what_it_and_its_threads_took_and_where(name: str) -> None:
    def in_a_thread() -> None:
        with redis_lock(f"{name}:thread"):
            pass

    async def in_a_task() -> None:
        async with redis_lock(f"{name}:task", mode="shared"):
            await sync_to_async(in_a_thread)()

    async def take(request: HttpRequest) -> None:
        async with redis_lock(name):
            await asyncio.create_task(in_a_task())

    page = shown(take)
    expected = [
        (name, "exclusive", "released"),
        (f"{name}:task", "shared", "released"),
        (f"{name}:thread", "exclusive", "released"),
    ]
    assert expected == [row.facts for row in page.rows]
    assert "Locks 3 acquires, waited 0.0 ms" == page.button
    innermost = [_text(stack.strip().split("\n\n")[-1]) for stack in page.stacks]
    for function, line in zip(("take", "in_a_task", "in_a_thread"), innermost, strict=True):
        assert f"test_debug_toolbar.py in {function}" in line


def test_a_wait_is_shown_with_who_was_in_the_way(name: str, server_side: Observer) -> None:
    first = granted(Lock(name, label="the first").acquire())

    def take(request: HttpRequest) -> None:
        with redis_lock(name, wait=PATIENCE, reentrant=False):
            pass

    with ThreadPoolExecutor(1) as pool:
        page = pool.submit(shown, take)
        server_side.until_waiters(name, 1)
        first.release()
        result = page.result(PATIENCE)
    (row,) = result.rows
    assert "released" == row.outcome
    assert 0 < milliseconds(row.waited) < PATIENCE * 1000
    assert "(the first)" in row.in_the_way
    assert result.button.endswith(f"waited {row.waited}")
    first_words = _text(result.content)
    assert first_words.startswith(f"Waited longest: {row.waited} for {name} . In the way:")
    assert "(the first)" in first_words.partition("Summary")[0]


@pytest.mark.parametrize(("wait", "outcome"), [(0, "not available"), (0.02, "timed out")])
def test_an_acquire_in_vain_is_shown_once(name: str, wait: float, outcome: str) -> None:
    def take(request: HttpRequest) -> None:
        with pytest.raises(LockNotAvailable), redis_lock(name, wait=wait):
            pass

    with held(name):
        (row,) = shown(take).rows
    assert (outcome, "") == (row.outcome, row.held)
    assert "(redis_locks.testing.held)" in row.in_the_way


def test_an_acquire_that_redis_does_not_answer_is_shown(name: str) -> None:
    def take(request: HttpRequest) -> None:
        with pytest.raises(LockBackendError):
            Lock(name, using="unix:///nonexistent/redis.sock").acquire(wait=0)

    (row,) = shown(take).rows
    assert (name, "exclusive", "Redis away") == row.facts
    assert "" == row.held


def test_a_lost_hold_is_shown_as_lost_though_a_renewal_told_of_it(
    name: str, server_side: Observer
) -> None:
    holds = []

    def take(request: HttpRequest) -> None:
        told: list[object] = []
        receive = lambda event, **_: told.append(event)  # noqa: E731 - kept to be disconnected
        LOCK_SIGNALS["lost"].connect(receive)
        hold = granted(Lock(name, lease=2).acquire())
        holds.append(hold)
        stored.drop_holder(server_side.client, keys_of(name).lock)
        until(lambda: told)
        LOCK_SIGNALS["lost"].disconnect(receive)

    page = shown(take)
    assert ["lost"] == [row.outcome for row in page.rows]
    assert "<strong>lost</strong>" in page.content
    with pytest.raises(Exception, match="was lost"):
        holds[0].release()


def test_what_is_still_held_at_the_end_is_shown_as_held(name: str) -> None:
    holds = []

    def take(request: HttpRequest) -> None:
        holds.append(Lock(name).acquire())

    (row,) = shown(take).rows
    holds[0].release()
    assert "held" == row.outcome
    assert 0 < milliseconds(row.held)


def test_other_requests_and_threads_are_not_shown(name: str) -> None:
    def take(request: HttpRequest) -> None:
        with held(f"{name}:other"), redis_lock(name):
            pass

    assert [name] == [row.lock for row in shown(take).rows]


def test_the_template_of_a_decorated_function_is_shown_too(name: str) -> None:
    @redis_lock("{prefix}:{number}")
    def work(prefix: str, number: int) -> None: ...

    def take(request: HttpRequest) -> None:
        with override_locks("granted"):
            work(name, 7)

    (row,) = shown(take).rows
    assert f"{name}:7 {{prefix}}:{{number}}" == row.lock


def test_a_request_without_locks_says_so() -> None:
    page = shown(lambda request: None)
    assert "This request acquired no lock." == _text(page.content)
    assert "Locks none acquired" == page.button


def test_names_are_shown_as_text_and_nothing_is_inline() -> None:
    evil = "<script>alert(1)</script>\u202e\n\x1b[2J"

    def take(request: HttpRequest) -> None:
        with override_locks("granted"), redis_lock(evil):
            pass

    page = shown(take)
    (row,) = page.rows
    assert r"<script>alert(1)</script>\u202e\n\x1b[2J" == row.lock
    assert not re.search(r"<script|<style|style=|\son\w+=|javascript:", page.content)


def test_more_acquires_than_are_shown_are_counted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel, "MAX_ROWS", 2)

    def take(request: HttpRequest) -> None:
        with override_locks("granted"):
            for number in range(5):
                with redis_lock(f"{name}:{number}"):
                    pass

    page = shown(take)
    assert [f"{name}:0", f"{name}:1"] == [row.lock for row in page.rows]
    assert "3 further acquires are neither shown nor added up." in page.content


def test_nobody_listens_where_the_panel_is_switched_off() -> None:
    listened = []
    current[:] = [lambda request: listened.append(len(LOCK_SIGNALS["acquired"].receivers))]
    before = len(LOCK_SIGNALS["acquired"].receivers)
    browser = Client()
    browser.get("/sync")
    browser.cookies["djdtLocksPanel"] = "off"
    browser.get("/sync")
    assert [before + 1, before] == listened
