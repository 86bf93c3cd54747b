"""Cancel in the admin: who may, which wait it ends, and what the log keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.test import Client

from redis_locks import Hold, LockError, inspection
from redis_locks.inspection import WaiterInfo
from tests.django.admin_pages import staff
from tests.django.test_admin_release import said, url_of
from tests.support.admin import mark_of
from tests.support.parties import held, waited_for
from tests.support.world import until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]

WHY = "the import can run tomorrow"


@pytest.fixture
def hold(name: str) -> Iterator[Hold]:
    with held(name) as made:
        yield made


@pytest.fixture
def told(name: str, hold: Hold) -> Iterator[list[LockError]]:
    """What the waiter is told, of whom the others see the label "import"."""
    with waited_for(name, "import") as errors:
        yield errors


@pytest.fixture
def operator() -> Client:
    return staff("view_lock", "cancel_waiter")


def waiting() -> WaiterInfo:
    (waiter,) = inspection.waiters()
    return waiter


def url(name: str) -> str:
    return url_of(name, "cancel")


@pytest.mark.parametrize("codenames", [(), ("view_lock", "release_lock"), ("cancel_waiter",)])
def test_without_both_permissions_there_is_no_button_and_no_cancel(
    name: str, told: list[LockError], codenames: tuple[str, ...]
) -> None:
    browser = staff(*codenames)
    assert "/cancel/" not in said(browser, name)
    assert 403 == browser.get(url(name), {"party": mark_of(waiting().token)}).status_code
    form = {"reason": WHY, "party": mark_of(waiting().token)}
    assert 403 == browser.post(url(name), form).status_code
    assert waiting()
    assert not LogEntry.objects.exists()


def test_get_asks_about_that_waiter_and_cancels_nothing(
    operator: Client, name: str, told: list[LockError]
) -> None:
    with waited_for(name, "other"):
        marks = [mark_of(waiter.token) for waiter in inspection.waiters()]
        links = re.findall(r'href="([^"]+/cancel/[^"]+)"', said(operator, name))
        assert [f"{url(name)}?party={mark}" for mark in marks] == links
        html = operator.get(links[0]).content.decode()
        assert "import" in html
        assert "other" not in html
        assert marks[:1] == re.findall(r'name="party" value="([^"]+)"', html)
        assert 2 == len(inspection.waiters())
    assert not LogEntry.objects.exists()


def test_cancel_ends_the_wait_and_logs_who_and_why(
    operator: Client, name: str, hold: Hold, told: list[LockError]
) -> None:
    response = operator.post(
        url(name), {"reason": WHY, "party": mark_of(waiting().token)}, follow=True
    )
    assert [(url_of(name, "change"), 302)] == response.redirect_chain
    assert "Cancelled; it was waited for by" in response.content.decode()
    until(lambda: told)
    assert "cancelled" in str(told[0])
    hold.check()
    entry = LogEntry.objects.get()
    assert ("staff", CHANGE, name) == (entry.user.username, entry.action_flag, entry.object_id)
    message = entry.get_change_message()
    assert message.startswith("Cancelled; waited for by ")
    assert "(import)" in message
    assert message.endswith(f"Reason: {WHY}")
    assert WHY in operator.get(url_of(name, "history")).content.decode()


def test_who_may_cancel_only_cannot_release(
    operator: Client, name: str, hold: Hold, told: list[LockError]
) -> None:
    assert "Force-release" not in said(operator, name)
    assert (
        403
        == operator.post(url_of(name), {"reason": WHY, "party": mark_of(hold.token)}).status_code
    )
    # The token of a hold is no waiter's.
    response = operator.post(url(name), {"reason": WHY, "party": mark_of(hold.token)}, follow=True)
    assert "nothing was cancelled" in response.content.decode()
    hold.check()
    assert waiting()
