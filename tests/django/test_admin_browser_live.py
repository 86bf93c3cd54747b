"""The admin's pages of locks follow what happens, in a real browser.

They do so under a strict Content-Security-Policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browsing import MARKS
from tests.django.admin_browsing import LOCKS, Visit, try_now
from tests.faults.processes import Worker

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = MARKS


def test_the_list_follows_other_processes_by_itself(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("text=No lock matches")
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=name, lease=3, label="nightly report")
    row = page.wait_for_selector("[data-rows] tr")
    assert row
    assert name in row.inner_text()
    assert "nightly report" in row.inner_text()
    waiter.tell("acquire", name=name, lease=3)
    page.wait_for_selector("[data-rows] >> text=1 waiting")
    holder.ask("release")
    page.wait_for_selector("[data-rows] >> text=1 waiting", state="detached")
    waiter.answer()
    waiter.ask("release")
    page.wait_for_selector("text=No lock matches")


def test_times_go_on_between_the_news_and_the_focus_stays(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}")
    first = page.inner_text("[data-since]")
    page.wait_for_function(
        "(first) => document.querySelector('[data-since]').textContent !== first", arg=first
    )
    page.focus("[data-rows] a")
    # The row is replaced by a new one, but whoever stood on its link stands on the new link.
    waiter.tell("acquire", name=name, lease=60)
    page.wait_for_selector("text=1 waiting")
    assert name in page.evaluate("document.activeElement.textContent")


def test_updates_can_be_paused(visit: Visit, hire: Callable[[], Worker], name: str) -> None:
    page = visit.open(f"{LOCKS}?q={name}")
    page.click("text=Pause updates")
    page.wait_for_selector("[data-state='paused']")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hire().ask("acquire", name=name, lease=60)
    page.evaluate("new Promise((done) => setTimeout(done, 2500))")
    assert [] == asked
    page.click("text=Resume updates")
    page.wait_for_selector("[data-rows] tr")


def test_what_is_asked_when_updates_are_paused_is_not_shown(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("text=No lock matches")
    under_way: list[Route] = []

    def keep(route: Route) -> None:
        under_way.append(route)

    page.route("**/data/**", keep)
    with page.expect_request("**/data/**"):
        hire().ask("acquire", name=name, lease=60)
    page.click("text=Pause updates")
    page.wait_for_selector("[data-state='paused']")
    under_way[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 1000))")
    assert "Paused" == page.inner_text("[data-state-text]")
    assert 0 == page.locator("[data-rows]").count()
    page.unroute("**/data/**")
    page.click("text=Resume updates")
    page.wait_for_selector("[data-rows] tr")


def test_a_hidden_page_asks_for_nothing_until_it_is_seen_again(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("text=No lock matches")
    # A headless page is never hidden, so the browser's answer is put in the place of its own.
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hire().ask("acquire", name=name, lease=60)
    page.evaluate("new Promise((done) => setTimeout(done, 2500))")
    assert [] == asked
    delays = f"""(hidden) => {{
        const plan = window.setTimeout, delays = [];
        window.setTimeout = (call, delay) => {{ delays.push(delay); return plan(call, delay); }};
        ({hide})(hidden);
        window.setTimeout = plan;
        return delays;
    }}"""
    assert [0] == page.evaluate(delays, False)  # it asks at once, not after a pause
    page.wait_for_selector("[data-rows] tr")


def test_nothing_is_sent_when_nothing_changed(page: Page) -> None:
    # The server's latency is shown, too, and may have changed at first.
    with page.expect_response(lambda news: "/data/" in news.url and news.status == 304):
        pass


def test_a_server_that_goes_away_is_told_and_what_was_seen_stays(
    visit: Visit, page: Page, name: str
) -> None:
    page.route(
        "**/data/**",
        lambda route: route.fulfill(status=503, json={"unreachable": "Error 111."}),
    )
    page.wait_for_selector("[role=alert] >> text=Redis could not answer.")
    page.wait_for_selector("text=Error 111.")
    page.wait_for_selector("text=/what was known .* ago. Next try in/")
    assert name in page.inner_text("[data-rows]")
    # What is shown is from before: its clocks stand still.
    stands = page.inner_text("[data-rows] [data-since]")
    page.evaluate("new Promise((done) => setTimeout(done, 1500))")
    assert stands == page.inner_text("[data-rows] [data-since]")
    try_now(page, "**/data/**")
    assert not page.is_visible("[role=alert]")
    # A browser reports every 503 as an error; this one was ours.
    visit.problems[:] = [problem for problem in visit.problems if "503" not in problem]


def test_a_page_whose_user_may_no_longer_see_it_says_how_old_it_is_and_tries_no_more(
    visit: Visit, page: Page
) -> None:
    page.route("**/data/**", lambda route: route.fulfill(status=403, body=""))
    page.wait_for_selector("[role=alert] >> text=You may no longer see this page.")
    page.wait_for_selector("text=/what was known [2-9].* ago.$/")
    told = page.inner_text("[data-banner-next]")
    page.wait_for_function(
        "told => document.querySelector('[data-banner-next]').textContent !== told", arg=told
    )
    assert "Trying" not in page.inner_text("[data-banner]")
    visit.problems[:] = [problem for problem in visit.problems if "403" not in problem]


def test_without_the_server_nothing_can_be_ended_from_what_is_shown(
    visit: Visit, page: Page
) -> None:
    page.click("[data-rows] a")
    page.wait_for_selector("[data-state='live'] >> text=Force-release…")
    page.route("**/live/**", lambda route: route.fulfill(status=503, json={"unreachable": "gone."}))
    page.wait_for_selector("[data-state='trouble']")
    assert page.evaluate("[...document.querySelectorAll('[data-act]')].every((each) => each.inert)")
    try_now(page, "**/live/**")
    assert not page.evaluate("document.querySelector('[data-act]').inert")
    visit.problems[:] = [problem for problem in visit.problems if "503" not in problem]


def test_a_search_finds_while_one_types_and_is_in_the_address(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    hire().ask("acquire", name=f"{name}:one", lease=60)
    hire().ask("acquire", name=f"{name}:two", lease=60, label=f"label of {name}")
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("[data-rows] tr:nth-child(2)")
    page.keyboard.press("/")
    page.keyboard.type(f"label of {name}")
    page.wait_for_selector("[data-rows] tr:only-child")
    assert f"{name}:two" in page.inner_text("[data-rows]")
    page.reload()
    page.wait_for_selector("[data-state='live']")
    assert 1 == page.locator("[data-rows] tr").count()
