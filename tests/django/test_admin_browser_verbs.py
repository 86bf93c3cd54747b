"""Force-release and cancel from the admin, in a real browser under a strict Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable

from tests.browsing import MARKS
from tests.django.admin_browsing import LOCKS, Visit, browser, hire, server, site, visit
from tests.faults.processes import Worker
from tests.support.admin import mark_of
from tests.support.world import until

pytestmark = MARKS
__all__ = ["browser", "hire", "server", "site", "visit"]


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
    page.click("text=Operators' log")
    assert "stuck since the deployment" in page.inner_text("#operators-log")


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
    page.wait_for_selector("text=waited for by nobody")
    page.click("text=Operators' log")
    assert "the import can run tomorrow" in page.inner_text("#operators-log")


def test_who_may_only_look_has_no_button_and_a_forged_post_fails(
    visit: Visit, hire: Callable[[], Worker], name: str
) -> None:
    token = hire().ask("acquire", name=name, lease=60)["token"]
    hire().tell("acquire", name=name, lease=60)
    page = visit.open(f"{LOCKS}?q={name}", user="viewer")
    page.click("[data-rows] a")
    page.wait_for_selector("text=waited for by 1")
    assert 0 == page.locator("text=/Force-release|Cancel/").count()
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    for view in ("release", "cancel"):
        response = page.request.post(
            page.url.replace("/change/", f"/{view}/"),
            form={
                "reason": "because I can",
                "party": mark_of(token),
                "csrfmiddlewaretoken": cookies["csrftoken"],
            },
        )
        assert 403 == response.status
    page.wait_for_selector("text=Held by 1")
