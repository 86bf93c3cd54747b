"""The end of many holds and waits at once: drain of a host, and of what a filter finds."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from redis_locks import inspection
from tests.django.admin_pages import LIST, page_of, staff, text_of
from tests.support.admin import end_at_once, look_at_most, mark_of
from tests.support.parties import MINUTES, ask, held, on_host, waited_for
from tests.support.world import existing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_prefix")]

BULK = "admin:redis_locks_lock_bulk"
WHY = "web-2 is gone"


def url(query: str) -> str:
    return f"{reverse(BULK)}?{query}"


def offered(page: str) -> list[str]:
    return [unescape(value) for value in re.findall(r'name="end" value="([^"]*)"', page)]


def end(browser: Client, query: str, values: list[str], reason: str = WHY) -> str:
    form = {"reason": reason, "end": values}
    answer = browser.post(url(query), form, follow=True)
    text: str = answer.content.decode()
    return text


def test_a_host_is_drained_of_what_it_holds_and_waits_for(operator: Client) -> None:
    with held("other"), on_host("web-2"), held("a"), held("b"), waited_for("other"):
        page = text_of(operator, url("host=web-2"))
        assert "2 holds and 1 wait</strong> on 1 host" in page
        told = end(operator, "host=web-2", offered(page))
        assert "Force-released 2 holds. Cancelled 1 wait.<" in told
        assert ["other"] == [lock.name for lock in inspection.locks()]
    assert {"a", "b", "other"} == {entry.object_id for entry in LogEntry.objects.all()}
    assert all(WHY in entry.change_message for entry in LogEntry.objects.all())


def test_all_waiters_of_a_lock_are_offered_and_what_is_too_much_is_counted(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held("a"):
        ask((("a", f"waiter{number}.1") for number in range(30)), wait=MINUTES)
        page = text_of(operator, url("q=a"))
        end_at_once(monkeypatch, 20)
        cut = text_of(operator, url("q=a"))
    assert "1 hold and 30 waits" in page
    assert 31 == len(offered(page))
    assert 20 == len(offered(cut))
    assert "There are more: come back for them." in cut


def test_of_very_many_locks_a_part_is_read_and_the_page_says_so(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_most(monkeypatch, 30)
    ask(((f"order:{number:03}", f"holder{number}.1") for number in range(100)), wait=0)
    ask([("zebra", "holder.1")], wait=0, host="web-9")
    page = text_of(operator, url("host=web-1"))
    ask([("order:000", "holder.2")], wait=MINUTES, host="web 1; id")
    hostile = text_of(operator, url("host=web+1%3B+id"))
    nobody = operator.get(url("host=web-9"), follow=True).content.decode()
    assert 30 == len(offered(page))
    assert "Of 101 locks, this looked at 30" in page
    assert "<code>manage.py locks drain --host web-1</code> reads all of them." in page
    assert "drain --host &#x27;web 1; id&#x27;</code>" in hostile
    assert "Nothing was found in 30 of 101 locks." in nobody


def test_a_host_leads_to_what_it_holds_and_waits_for(operator: Client) -> None:
    with on_host("web-2&x"), held("a"):
        link = f'<a href="{reverse(LIST)}?host=web-2%26x"><bdi>web-2&amp;x</bdi></a>'
        assert link in text_of(operator, reverse(LIST))
        assert link in text_of(operator, page_of("a"))
        assert "Drain this host…" in text_of(operator, f"{reverse(LIST)}?host=web-2%26x")


@pytest.mark.parametrize("waiting", [False, True])
def test_a_host_is_drained_of_its_holds_and_waits_behind_the_first_ten(
    operator: Client, *, waiting: bool
) -> None:
    mode = "exclusive" if waiting else "permit:15"
    if waiting:
        ask([("exports", "holder.1")], wait=0)
    for number in range(15):
        host = "web-13" if number == 12 else "web-1"
        ask([("exports", f"party{number:02}.1")], wait=MINUTES, host=host, mode=mode)
    assert "Drain this host…" in text_of(operator, f"{reverse(LIST)}?host=web-13")
    page = text_of(operator, url("host=web-13"))
    assert f"<strong>{'0 holds and 1 wait' if waiting else '1 hold and 0 waits'}</strong>" in page
    assert offered(page) == offered(text_of(operator, url("host=web-13&q=exp*")))
    assert [] == offered(operator.get(url("host=web-13&q=o*"), follow=True).content.decode())
    end(operator, "host=web-13", offered(page))
    left = existing("exports")
    tokens = [party.token for party in (left.waiters if waiting else left.holders)]
    assert [f"party{number:02}.1" for number in range(15) if number != 12] == tokens


@pytest.mark.parametrize("query", ["host=web-2", "q=a"])
def test_a_drain_ends_what_a_wait_was_granted_since_it_was_shown(
    operator: Client, query: str
) -> None:
    with held("a"):
        ask([("a", "waiter1.1")], wait=MINUTES, host="web-2")
        values = [each for each in offered(text_of(operator, url(query))) if "cancel" in each]
        assert 1 == len(values)
    told = end(operator, query, values)
    drains = query.startswith("host")
    assert ("Force-released 1 hold." in told, inspection.lock("a") is None) == (drains, drains)


def test_only_what_is_ticked_ends_and_only_if_it_was_shown(operator: Client) -> None:
    with held("a:1"), held("a:2"), held("a:3"):
        values = offered(text_of(operator, url("q=a:*")))
        kept = [value for value in values if not value.endswith("a:2")]
        inspection.force_release("a:3")
        with held("a:3"):
            told = end(operator, "q=a:*", kept)
            assert (
                "Force-released 1 hold. Cancelled 0 waits. 1 of those ticked had ended by itself."
                in told
            )
            assert ["a:2", "a:3"] == [lock.name for lock in inspection.locks()]


def test_without_a_filter_nothing_is_offered(operator: Client) -> None:
    with held("a"):
        answer = operator.get(url(""), follow=True)
        assert "Filter the list first" in answer.content.decode()
        assert "End these" not in answer.content.decode()
        assert "End these…" in text_of(operator, f"{reverse(LIST)}?q=a")
        assert "End these…" not in text_of(operator, f"{reverse(LIST)}?q=b")


def test_who_may_only_cancel_is_offered_waits_only(viewer: Client) -> None:
    with held("a"), waited_for("a"):
        assert 403 == viewer.get(url("q=a")).status_code
        assert "End these" not in text_of(viewer, f"{reverse(LIST)}?q=a")
        canceller = staff("view_lock", "cancel_waiter", name="canceller")
        page = text_of(canceller, url("q=a"))
        assert "0 holds and 1 wait</strong>" in page
        (hold,) = inspection.locks()[0].holders
        end(canceller, "q=a", [f"release\t{mark_of(hold.token)}\ta", "nonsense"])
        assert inspection.lock("a")
        assert "/a/" in page_of("a")
