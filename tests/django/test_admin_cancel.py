"""Cancel in the admin: who may, which wait it ends, and what the log keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.test import Client
from django.urls import reverse

from redis_locks import Hold, LockBackendError, LockError, inspection
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


def test_a_post_without_the_csrf_token_is_refused(
    operator: Client, name: str, told: list[LockError]
) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    form = {"reason": WHY, "party": mark_of(waiting().token)}
    assert 403 == strict.post(url(name), form).status_code
    assert waiting()


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


@pytest.mark.parametrize("reason", ["", "   ", "x" * 1001])
def test_a_reason_is_needed(
    operator: Client, name: str, told: list[LockError], reason: str
) -> None:
    response = operator.post(url(name), {"reason": reason, "party": mark_of(waiting().token)})
    assert 200 == response.status_code
    assert b"errorlist" in response.content
    assert f'name="party" value="{mark_of(waiting().token)}"' in response.content.decode()
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


def test_a_wait_that_has_ended_has_nothing_to_cancel(
    operator: Client, name: str, hold: Hold
) -> None:
    response = operator.get(url(name), {"party": mark_of("gone.1")}, follow=True)
    assert "there is nothing to cancel" in response.content.decode()
    response = operator.post(url(name), {"reason": WHY, "party": mark_of("gone.1")}, follow=True)
    assert "nothing was cancelled" in response.content.decode()
    assert not LogEntry.objects.exists()


def test_a_wait_that_ends_in_the_last_moment_is_logged_as_not_cancelled(
    operator: Client, name: str, told: list[LockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "cancel", lambda *_, **__: False)
    response = operator.post(
        url(name), {"reason": WHY, "party": mark_of(waiting().token)}, follow=True
    )
    assert "nothing was cancelled" in response.content.decode()
    assert "the wait ended by itself" in LogEntry.objects.get().get_change_message()


def test_a_server_that_goes_away_leaves_an_entry_that_says_so(
    operator: Client, name: str, told: list[LockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        msg = "the server does not answer"
        raise LockBackendError(msg)

    monkeypatch.setattr(inspection, "cancel", fail)
    response = operator.post(
        url(name), {"reason": WHY, "party": mark_of(waiting().token)}, follow=True
    )
    assert (
        "Redis cannot be asked about this: the server does not answer" in response.content.decode()
    )
    assert "Redis did not answer" in LogEntry.objects.get().get_change_message()


def test_a_hostile_waiter_is_text(operator: Client) -> None:
    name = "<script>alert(1)</script>\n\u202e"
    with held(name), waited_for(name, "<b>\n\u202e"):
        token = waiting().token
        page = operator.get(url(name), {"party": mark_of(token)}).content.decode()
        operator.post(url(name), {"reason": "<i>why</i>", "party": mark_of(token)})
    history = operator.get(url_of(name, "history")).content.decode()
    index = operator.get(reverse("admin:index")).content.decode()
    for html in (page, history, index):
        assert "<script>alert" not in html
        assert "<b>" not in html
        assert "\u202e" not in html
