"""Force-release and cancel from the admin, in a browser under a strict Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable

from tests.browsing import MARKS
from tests.django.admin_browsing import LOCKS, Visit
from tests.faults.processes import Worker
from tests.support.world import until

pytestmark = MARKS


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
