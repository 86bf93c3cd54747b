"""The admin's pages of locks in a real browser, under a strict Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.test import override_settings

from redis_locks import Lock, inspection
from redis_locks.statistics.flushing import flusher
from redis_locks.testing.server import EmbeddedServer
from tests.browsing import MARKS, browser, log_in, new_page, serious
from tests.contract.world import until
from tests.django.parties import MINUTES, ask
from tests.django.serving import served
from tests.elsewhere import in_thread
from tests.faults.processes import Worker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = MARKS
__all__ = ["browser"]

# The admin around it is Django's.
OURS = "#content"
LOCKS = "/admin/redis_locks/lock/"


class Visit:
    """A browser's page on the site, and everything that the browser complained about."""

    def __init__(self, browser: Browser, site: str) -> None:
        self._browser, self._site = browser, site
        self.problems: list[str] = []

    def open(self, path: str, user: str = "admin", **options: Any) -> Page:
        page = new_page(self._browser, self.problems, **options)
        page.set_default_timeout(15_000)
        page.goto(f"{self._site}/admin/login/?{urlencode({'next': path})}")
        log_in(page, "password", user)
        page.wait_for_selector("[data-state='live']")
        return page


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(use_environment=False) as started:
        yield started


@pytest.fixture(scope="module")
def site(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(server.url, tmp_path_factory.mktemp("site") / "db.sqlite3") as address:
        yield address


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    made = Visit(browser, site)
    yield made
    assert [] == made.problems


@pytest.fixture
def hire(server: EmbeddedServer) -> Iterator[Callable[[], Worker]]:
    """Start processes that hold and wait."""
    hired: list[Worker] = []

    def start() -> Worker:
        hired.append(Worker(server.url))
        return hired[-1].ready()

    yield start
    for worker in hired:
        worker.close()


def test_the_list_follows_other_processes_by_itself(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("text=No lock matches")
    holder, waiter = hire(), hire()
    token = holder.ask("acquire", name=name, lease=3, label="nightly report")["fence"]
    row = page.wait_for_selector("[data-rows] tr")
    assert row
    assert name in row.inner_text()
    assert "nightly report" in row.inner_text()
    assert str(token) in row.inner_text()
    waiter.tell("acquire", name=name, lease=3)
    page.wait_for_selector("text=1 waiting")
    holder.ask("release")
    page.wait_for_selector("text=1 waiting", state="detached")
    waiter.answer()
    waiter.ask("release")
    page.wait_for_selector("text=No lock matches")


def test_a_hold_that_changes_its_mode_is_shown_in_the_new_one(
    visit: Visit, server: EmbeddedServer, name: str
) -> None:
    with Lock(name, using=server.url, lease=60) as hold:
        listed, alone = visit.open(f"{LOCKS}?q={name}"), visit.open(f"{LOCKS}?q={name}")
        alone.click("[data-rows] a")
        alone.wait_for_selector("[data-state='live'] >> dd >> text=exclusive")
        hold.downgrade()
        listed.wait_for_selector("[data-rows] .locks-mode >> text=shared")
        alone.wait_for_selector("[data-rows] dd >> text=shared")


def test_how_many_more_wait_follows_the_queue(
    visit: Visit, server: EmbeddedServer, name: str
) -> None:
    with Lock(name, using=server.url, lease=60):
        ask(((name, f"{number}.1") for number in range(102)), wait=MINUTES, using=server.url)
        page = visit.open(f"{LOCKS}?q={name}")
        page.click("[data-rows] a")
        page.wait_for_selector("[data-state='live'] >> text=and 2 more")
        ask(((name, f"{number}.1") for number in range(102, 104)), wait=MINUTES, using=server.url)
        page.wait_for_selector("text=and 4 more")
        info = inspection.lock(name, using=server.url)
        for waiter in info.waiters[3:] if info else ():
            inspection.cancel(waiter, using=server.url)
        page.wait_for_selector("text=/and \\d+ more/", state="detached")
        assert 3 == page.locator("#queue-title >> xpath=..//tbody/tr").count()


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
    page.evaluate(hide, False)
    page.wait_for_selector("[data-rows] tr", timeout=1500)  # at once, not after a pause


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
    dot = """getComputedStyle(document.querySelector("[data-state-text]"), "::before").backgroundColor"""
    live = page.evaluate(dot)
    page.click("text=Pause updates")
    page.wait_for_selector("[data-state='paused']")
    assert live != page.evaluate(dot)


def test_nothing_is_sent_when_nothing_changed(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    hire().ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}")
    with page.expect_response(lambda response: "/data/" in response.url) as caught:
        pass
    assert 304 == caught.value.status


def test_force_release_reaches_a_holder_in_another_process(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    holder = hire()
    holder.ask("acquire", name=name, lease=60)  # renewed in 20 s for the first time
    page = visit.open(f"{LOCKS}?q={name}")
    page.click("[data-rows] a")
    page.click("text=Force-release…")
    # Without a reason the browser does not even send the form.
    page.click("input[value='Force-release']")
    assert page.url.endswith("/release/")
    page.fill("#id_reason", "stuck since the deployment")
    page.click("input[value='Force-release']")
    page.wait_for_selector(".messagelist .success")
    until(lambda: holder.ask("is_lost")["is_lost"], within=1)
    page.wait_for_selector("text=Nobody holds this lock or waits for it.")
    page.click("text=History")
    assert "stuck since the deployment" in page.inner_text("#change-history")


def test_cancel_reaches_a_waiter_in_another_process(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}")
    page.click("[data-rows] a")
    # The button comes with the news, as the waiter does, and is reached by keyboard.
    waiter.tell("acquire", name=name, lease=60)
    page.focus("text=Cancel…")
    page.keyboard.press("Enter")
    page.fill("#id_reason", "the import can run tomorrow")
    page.click("input[value='Cancel the wait']")
    page.wait_for_selector(".messagelist .success")
    assert "cancelled" in waiter.answer()["message"]
    page.wait_for_selector("text=Nobody waits.")
    page.click("text=History")
    assert "the import can run tomorrow" in page.inner_text("#change-history")


def test_who_may_only_look_has_no_button_and_a_forged_post_fails(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    token = hire().ask("acquire", name=name, lease=60)["token"]
    hire().tell("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}", user="viewer")
    page.click("[data-rows] a")
    page.wait_for_selector("#queue-title >> xpath=..//tbody/tr")
    assert 0 == page.locator("text=/Force-release|Cancel/").count()
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    for view in ("release", "cancel"):
        response = page.request.post(
            page.url.replace("/change/", f"/{view}/"),
            form={
                "reason": "because I can",
                "token": token,
                "csrfmiddlewaretoken": cookies["csrftoken"],
            },
        )
        assert 403 == response.status
    page.wait_for_selector("text=Held by")


@pytest.mark.parametrize(
    "hostile", ["<script>document.title = 'x'</script>", "\u202egnp\nexe", "x" * 512, ".."]
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
    page.wait_for_selector("[data-state='live'] >> text=Held by")
    shown = page.inner_text("h1")
    assert "\u202e" not in shown
    assert (hostile if hostile.isprintable() else r"\u202egnp\nexe") in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_server_that_goes_away_is_told_and_what_was_seen_stays(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    hire().ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}")
    page.route(
        "**/data/**",
        lambda route: route.fulfill(status=503, json={"unreachable": "nobody answers."}),
    )
    page.wait_for_selector("[role=alert] >> text=Redis cannot be reached: nobody answers.")
    assert name in page.inner_text("[data-rows]")
    page.unroute("**/data/**")
    page.wait_for_selector("[data-state='live']")
    assert not page.is_visible("[role=alert]")
    # A browser reports every 503 as an error; this one was ours.
    visit.problems[:] = [problem for problem in visit.problems if "503" not in problem]


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
    found = serious(page, OURS)
    page.click("[data-rows] a")
    page.wait_for_selector("text=Who blocks whom")
    found += serious(page, OURS)
    page.click("text=Cancel…")
    page.wait_for_selector("#id_reason")
    found += serious(page, OURS)
    page.go_back()
    page.click("text=Force-release…")
    page.wait_for_selector("#id_reason")
    found += serious(page, OURS)
    page.goto(page.url.split("/lock/")[0] + "/lock/?q=no-such-lock")
    page.wait_for_selector("text=No lock matches")
    found += serious(page, OURS)
    page.goto(page.url.split("?")[0] + "stats/")
    page.wait_for_selector("text=acquired")
    found += serious(page, OURS)
    assert [] == found


def count(server: EmbeddedServer, name: str) -> None:
    """Let some statistics of a lock be there."""
    with override_settings(REDIS_LOCKS={"CONNECTION": server.url}):
        lock = Lock(f"{name}:counted" + ":1234567890" * 20, wait=0)
        with lock:
            assert in_thread(lock.acquire) is None
        flusher.flush()


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen(
    visit: Visit, hire: Callable[[], Worker], server: EmbeddedServer, name: str, width: int
) -> None:
    long_name = name + ":1234567890" * 20
    holder, waiter = hire(), hire()
    holder.ask("acquire", name=long_name, lease=60, label="manage.py " + "x" * 100)
    waiter.tell("acquire", name=long_name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}", viewport={"width": width, "height": 900})
    page.wait_for_selector("text=1 waiting")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("[data-rows] a")
    page.wait_for_selector("text=Who blocks whom")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("text=Cancel…")
    page.wait_for_selector("#id_reason")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.go_back()
    page.click("text=Force-release…")
    page.wait_for_selector("#id_reason")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    count(server, name)
    page.goto(page.url.split("/lock/")[0] + "/lock/stats/")
    page.wait_for_selector("text=acquired")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_can_be_reached_by_keyboard(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    hire().ask("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}")
    page.wait_for_selector("[data-rows] tr")
    page.focus("#id_q")
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.textContent || document.activeElement.name")
        )
    assert [
        text in "\n".join(reached)
        for text in ("host", "contended", "Pause updates", "Held for", name)
    ] == [True] * 5
    page.focus("[data-rows] a")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Held by")
