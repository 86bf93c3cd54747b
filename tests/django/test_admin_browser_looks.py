"""What the admin's pages of locks look like: to a keyboard, a small screen, other colours, axe.

Also with hostile names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.test import override_settings

from redis_locks import Lock, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.browsing import MARKS, serious
from tests.django.admin_browsing import LOCKS, Visit
from tests.elsewhere import in_thread
from tests.faults.processes import Worker
from tests.support.parties import MINUTES, ask
from tests.support.statistics import flush

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = MARKS
# The admin around it is Django's.
OURS = "#content"


def test_with_forced_colours_what_colours_tell_is_still_seen(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=name, lease=60)
    waiter.tell("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}", forced_colors="active")
    page.wait_for_selector("text=1 waiting")
    assert page.evaluate("matchMedia('(forced-colors: active)').matches")
    mark = "getComputedStyle(document.querySelector('.locks-contended > *')).borderLeftWidth"
    assert "3px" == page.evaluate(mark)
    dot = (
        "getComputedStyle(document.querySelector('[data-state-text]'), '::before').backgroundColor"
    )
    live = page.evaluate(dot)
    page.click("text=Pause updates")
    page.wait_for_selector("[data-state='paused']")
    assert live != page.evaluate(dot)


@pytest.mark.parametrize(
    "hostile", ["<script>document.title = 'x'</script>", "\u202egnp\nexe", ".."]
)
def test_a_hostile_name_is_text_and_has_a_page(
    visit: Visit, hire: Callable[[], Worker], hostile: str
) -> None:
    hire().ask("acquire", name=hostile, lease=3, label=hostile)
    page = visit.open(f"{LOCKS}?{urlencode({'q': hostile})}")
    row = page.wait_for_selector("[data-rows] tr")
    assert row
    assert "Locks" in page.title()
    page.set_viewport_size({"width": 360, "height": 800})
    page.click("[data-rows] a")
    page.wait_for_selector("[data-state='live'] >> text=Held by 1")
    shown = page.inner_text("h1")
    assert "\u202e" not in shown
    assert (hostile if hostile.isprintable() else r"\u202egnp\nexe") in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def count(server: EmbeddedServer, name: str) -> None:
    """Let some statistics of a lock be there."""
    with override_settings(REDIS_LOCKS={"CONNECTION": server.url}):
        lock = Lock(f"{name}:counted" + ":1234567890" * 20, wait=0)
        with lock:
            assert in_thread(lock.acquire) is None
        flush()


def each_page(page: Page, name: str) -> Iterator[None]:
    """From a list with one lock that is held and waited for, go to every page; yield at each."""
    address = page.url.partition("?")[0]
    yield
    page.click("[data-rows] a")
    page.wait_for_selector("text=Held by 1")
    yield
    page.click("text=Cancel…")
    page.wait_for_selector("#id_reason")
    yield
    page.go_back()
    page.click("text=Force-release…")
    page.wait_for_selector("#id_reason")
    yield
    page.goto(f"{address}?q=no-such-lock")
    page.wait_for_selector("text=No lock matches")
    yield
    page.click("text=Group by name")
    page.goto(f"{address}?group=on&q={name}*")
    page.wait_for_selector("text=Longest hold", state="attached")
    yield
    page.goto(f"{address}?q={name}*")
    page.click("text=End these…")
    page.wait_for_selector("#id_reason")
    yield
    page.goto(f"{address}stats/?q={name}")
    page.wait_for_selector("text=acquired")
    yield


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(
    visit: Visit, hire: Callable[[], Worker], server: EmbeddedServer, name: str, scheme: str
) -> None:
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=name, lease=60)
    waiter.tell("acquire", name=name, lease=60)
    count(server, name)
    # axe itself does what the policy forbids.
    page = visit.open(f"{LOCKS}?q={name}", color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector("text=1 waiting")
    assert [] == [found for _ in each_page(page, name) for found in serious(page, OURS)]


@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_is_wider_than_the_screen(
    visit: Visit, hire: Callable[[], Worker], server: EmbeddedServer, name: str, width: int
) -> None:
    long_name = name + ":1234567890" * 20
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=long_name, lease=60, label="manage.py " + "x" * 100)
    waiter.tell("acquire", name=long_name, lease=60)
    many = ((f"{name}:{number}".ljust(87, "x"), f"{number}.1") for number in range(500))
    ask(many, wait=MINUTES, using=server.url)
    ask(((long_name, f"{number}.2") for number in range(149)), wait=MINUTES, using=server.url)
    page = visit.open(f"{LOCKS}?q={name}", viewport={"width": width, "height": 900})
    page.wait_for_selector("text=150 waiting")
    page.wait_for_selector("text=501 locks")
    count(server, name)
    for _ in each_page(page, name):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.wait_for_selector("text=150 waiters at 1 lock.")
    inspection.drain("web-1", using=server.url)


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_that_is_hidden_can_be_focused(
    visit: Visit, hire: Callable[[], Worker], name: str, width: int
) -> None:
    hire().ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}", viewport={"width": width, "height": 900})
    page.wait_for_selector("[data-rows] tr")
    page.focus("#id_q")
    seen = []
    for _ in range(20):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                """() => {
                    const each = document.activeElement, box = each.getBoundingClientRect();
                    const isOurs = each.closest(".locks-page");
                    return [each.textContent, !isOurs || box.width * box.height > 100];
                }"""
            )
        )
    assert [] == [text for text, visible in seen if not visible]
    assert name in [text for text, _ in seen]


def test_the_keys_go_from_lock_to_lock_and_back(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    holder = hire()
    for number in (1, 2):
        holder.ask("acquire", name=f"{name}:{number}", lease=60)
    page = visit.open(f"{LOCKS}?q={name}&o=name")
    page.wait_for_selector("[data-rows] tr:nth-child(2)")
    focused = "document.activeElement.textContent"
    for key, there in (("j", ":1"), ("j", ":2"), ("j", ":2"), ("k", ":1")):
        page.keyboard.press(key)
        assert f"{name}{there}" == page.evaluate(focused)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Held by 1")
    page.wait_for_selector("[data-state='live']")
    page.keyboard.press("Escape")
    page.wait_for_selector(".locks-list")
