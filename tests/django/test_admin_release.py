"""Force-release and cancel in the admin: who may, what they end, and what the log keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.models import CHANGE, LogEntry
from django.test import Client, override_settings
from django.urls import path, reverse

from redis_locks import Hold, Lock, LockBackendError, LockError, LockLost, Semaphore, inspection
from redis_locks.inspection import WaiterInfo
from tests.django.admin_pages import page_of, staff
from tests.support.admin import mark_of, register
from tests.support.parties import ask, held, waited_for
from tests.support.world import Threads, existing, until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]


WHY = "stuck since the deployment"


@pytest.fixture
def operator() -> Client:
    return staff("view_lock", "release_lock")


def url_of(name: str, view: str = "release") -> str:
    return page_of(name, view)


def end(browser: Client, name: str, *tokens: str, view: str = "release", **form: str) -> Any:
    """Send the form of a page that has shown these holds, or this wait."""
    marks = [mark_of(token) for token in tokens]
    return browser.post(url_of(name, view), {"reason": WHY, "party": marks, **form}, follow=True)


def said(browser: Client, name: str) -> str:
    return browser.get(url_of(name, "change")).content.decode()


def test_a_post_without_the_csrf_token_is_refused(operator: Client, name: str, hold: Hold) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert 403 == end(strict, name, hold.token).status_code
    assert inspection.lock(name)


@pytest.mark.parametrize("reason", ["   ", "x" * 1001])
def test_a_reason_is_needed(operator: Client, name: str, hold: Hold, reason: str) -> None:
    response = end(operator, name, hold.token, reason=reason)
    assert 200 == response.status_code
    assert b"errorlist" in response.content
    assert inspection.lock(name)
    assert not LogEntry.objects.exists()


def test_release_ends_the_hold_and_logs_who_and_why(
    operator: Client, name: str, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "redis_locks.audit")
    response = end(operator, name, hold.token)
    assert [(url_of(name, "change"), 302)] == response.redirect_chain
    assert "it was held by" in response.content.decode()
    assert inspection.lock(name) is None
    with pytest.raises(LockLost):
        hold.extend(60)
    entry = LogEntry.objects.get()
    assert ("staff", CHANGE, name) == (entry.user.username, entry.action_flag, entry.object_id)
    message = entry.get_change_message()
    assert message.startswith("Force-released; held by ")
    assert str(hold.fencing_token) in message
    assert message.endswith(f"Reason: {WHY}")
    first, record = (each for each in caplog.records if each.name == "redis_locks.audit")
    assert ["begun", "done"] == [vars(each)["outcome"] for each in (first, record)]
    assert ("staff", WHY) == (vars(record)["operator"], vars(record)["reason"])
    assert WHY in operator.get(url_of(name, "history")).content.decode()


def test_only_the_hold_that_was_shown_is_ended(operator: Client, name: str) -> None:
    with held(name) as first:
        operator.get(url_of(name))
    with held(name) as successor:
        response = end(operator, name, first.token)
        successor.check()
    assert "nothing was force-released" in response.content.decode()
    assert not LogEntry.objects.exists()


def test_of_two_holds_only_that_which_had_not_ended_is_logged(
    operator: Client, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (permit(name, lease=60, label=label).acquire(wait=0) for label in ("a", "b"))
    assert first
    assert second
    really = inspection.force_release

    def too_late(*args: str, **options: list[str]) -> inspection.ForceReleased:
        first.release()
        return really(*args, **options)

    caplog.set_level("INFO", "redis_locks.audit")
    monkeypatch.setattr(inspection, "force_release", too_late)
    response = end(operator, name, first.token, second.token)
    with pytest.raises(LockLost):
        second.release()
    (said,) = response.context["messages"]
    for text in (str(said), LogEntry.objects.get().get_change_message()):
        assert str(second.fencing_token) in text
        assert str(first.fencing_token) not in text
    (record,) = (each for each in caplog.records if "done" == vars(each).get("outcome"))
    assert 1 == len(vars(record)["parties"])


def test_a_server_that_goes_away_leaves_an_entry_that_says_so(
    operator: Client, name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        msg = "the server does not answer"
        raise LockBackendError(msg)

    monkeypatch.setattr(inspection, "force_release", fail)
    response = end(operator, name, hold.token)
    assert b"Redis could not answer: the server does not answer" in response.content
    message = LogEntry.objects.get().get_change_message()
    assert "Redis did not answer" in message
    assert WHY in message


def test_a_hostile_name_and_holder_are_text_in_the_log(operator: Client) -> None:
    name = "<script>alert(1)</script>\n\u202e"
    with held(name, label="<b>\n\u202e") as hold:
        page = operator.get(url_of(name)).content.decode()
        end(operator, name, hold.token, reason="<i>why</i>")
    entry = LogEntry.objects.get()
    assert name == entry.object_id
    assert "\n" not in entry.object_repr + entry.get_change_message()
    history = operator.get(url_of(name, "history")).content.decode()
    index = operator.get(reverse("admin:index")).content.decode()
    for html in (page, history, index):
        assert "<script>alert" not in html
        assert "<i>why" not in html
        assert "\u202e" not in html
    assert url_of(name, "change") in index


def shared(name: str, **options: object) -> Lock:
    return Lock(name, mode="shared", **options)


def permit(name: str, **options: object) -> Lock:
    return Semaphore(name, 3, **options)


def rare_permit(name: str, **options: object) -> Lock:
    return Semaphore(name, 2, **options)


@pytest.mark.parametrize(
    ("kind", "holders", "waits", "gets_it"),
    [
        (Lock, 1, Lock, True),
        (shared, 3, Lock, False),
        (permit, 3, permit, True),
        (permit, 3, rare_permit, False),
    ],
)
def test_the_question_says_truly_who_gets_the_lock_next(
    operator: Client,
    name: str,
    kind: Callable[..., Lock],
    holders: int,
    waits: Callable[..., Lock],
    gets_it: bool,
) -> None:
    threads = Threads()
    holds = [threads.acquire(kind(name, lease=60, label="batch")) for _ in range(holders)]
    first = threads.start(waits(name, wait=60, lease=60, label="first in line").acquire)
    until(lambda: (lock := inspection.lock(name)) is not None and lock.waiting == 1)
    assert holds[0]
    ended = holds[0].token
    question = operator.get(url_of(name), {"party": mark_of(ended)}).content.decode()
    assert "first in line on " in question
    assert gets_it == ("goes on waiting" not in question)
    end(operator, name, ended)
    info = existing(name)
    assert (0 if gets_it else 1) == info.waiting
    assert gets_it == ("first in line" in [holder.label for holder in info.holders])
    with pytest.raises(LockLost):
        holds[0].release()
    for hold in holds[1:]:
        assert hold
        hold.release()
    got = first.result(60)
    assert got
    got.release()


def test_a_project_s_subclass_says_who_may(name: str, hold: Hold, operator: Client) -> None:
    site = AdminSite()
    register(site, may_end=lambda _self, _request, ending: ending.view != "release")
    with override_settings(ROOT_URLCONF=(path("admin/", site.urls),)):
        assert 403 == operator.post(url_of(name), {"reason": WHY}).status_code
        assert url_of(name) not in said(operator, name)
    assert url_of(name) in said(operator, name)
    hold.extend(60)


def test_of_a_thousand_holds_the_page_ends_those_that_it_shows(operator: Client, name: str) -> None:
    """A form for all of them would have more fields than Django takes."""
    ask(((name, f"holder{number}.1") for number in range(1000)), mode="shared", wait=0)
    html = operator.get(url_of(name)).content.decode()
    assert "500 other holds of this lock stay." in html
    marks = re.findall(r'name="party" value="([^"]+)"', html)
    assert 302 == operator.post(url_of(name), {"reason": WHY, "party": marks}).status_code
    assert 500 == inspection.lock(name).holding


# Cancel in the admin: who may, which wait it ends, and what the log keeps


@pytest.fixture
def told(name: str, hold: Hold) -> Iterator[list[LockError]]:
    """What the waiter is told, of whom the others see the label "import"."""
    with waited_for(name, "import") as errors:
        yield errors


@pytest.fixture
def canceller() -> Client:
    return staff("view_lock", "cancel_waiter")


def waiting() -> WaiterInfo:
    (waiter,) = inspection.parties().waiters
    return waiter


@pytest.mark.parametrize(
    ("codenames", "views"),
    [
        *(
            (one, ["release", "cancel"])
            for one in ((), ("view_lock",), ("release_lock",), ("cancel_waiter",))
        ),
        (("view_lock", "release_lock"), ["cancel"]),
        (("view_lock", "cancel_waiter"), ["release"]),
    ],
)
def test_without_both_permissions_there_is_no_button_and_nothing_is_ended(
    name: str, hold: Hold, told: list[LockError], codenames: tuple[str, ...], views: list[str]
) -> None:
    browser = staff(*codenames)
    shown = said(browser, name)
    for view, token in (("release", hold.token), ("cancel", waiting().token)):
        allowed = view not in views
        assert allowed == (f"/{view}/" in shown)
        if not allowed:
            question = browser.get(url_of(name, view), {"party": mark_of(token)})
            assert 403 == question.status_code
            assert 403 == end(browser, name, token, view=view).status_code
    hold.check()
    assert waiting()
    assert not LogEntry.objects.exists()


def test_cancel_ends_the_wait_and_logs_who_and_why(
    canceller: Client, name: str, hold: Hold, told: list[LockError]
) -> None:
    response = end(canceller, name, waiting().token, view="cancel")
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
    assert WHY in canceller.get(url_of(name, "history")).content.decode()


def test_the_token_of_a_hold_is_no_waiters(
    canceller: Client, name: str, hold: Hold, told: list[LockError]
) -> None:
    response = end(canceller, name, hold.token, view="cancel")
    assert "nothing was cancelled" in response.content.decode()
    hold.check()
    assert waiting()


def test_a_wait_that_ends_in_the_last_moment_is_logged_as_not_cancelled(
    canceller: Client, name: str, told: list[LockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "cancel", lambda *_, **__: False)
    response = end(canceller, name, waiting().token, view="cancel")
    assert "nothing was cancelled" in response.content.decode()
    assert "the wait ended by itself" in LogEntry.objects.get().get_change_message()
