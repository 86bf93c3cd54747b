"""Pages of the bank keep themselves up to date: no page loads again by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import UUID

import pytest
import redis
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from demo_project.bank.live_page import Part, answer

BANK = Path(__file__).resolve().parents[2] / "demo_project" / "bank"
NEWS = {"accept": "application/json"}

pytestmark = [pytest.mark.django_db, pytest.mark.urls("demo_project.urls")]


def page_with(facts: object, *, over: bool = False, **headers: str) -> HttpResponse:
    request: HttpRequest = RequestFactory().get("/somewhere/", headers=headers)
    part = Part("tellers_branch", facts, {"branch": None})
    return answer(request, "bank/tellers.html", [part], over=over)


@pytest.mark.parametrize(
    "template", sorted((BANK / "templates" / "bank").glob("*.html")), ids=lambda path: path.name
)
def test_no_page_loads_again_by_itself(template: Path) -> None:
    html = template.read_text()
    # Without a script, nobody's place in the page is lost by it.
    html = re.sub(r"<noscript>.*?</noscript>", "", html, flags=re.DOTALL)
    assert "http-equiv" not in html
    assert not re.search(r"<(ul|ol)[^>]*role=.status", html), "a list is no status"


def test_a_page_begins_with_the_states_that_its_news_tell() -> None:
    page = page_with("facts")
    html = page.content.decode()
    news = page_with("facts", **NEWS)
    assert all(f'data-state="{state}"' in html for state in json_of(news)["parts"].values())
    assert "Accept" in page["Vary"]
    assert "Accept" in news["Vary"]
    assert 'data-live="/somewhere/"' in html


def test_nothing_is_sent_again_while_nothing_changes() -> None:
    etag = page_with("facts", **NEWS)["ETag"]
    known = {**NEWS, "if-none-match": etag}
    assert 304 == page_with("facts", **known).status_code
    assert 200 == page_with("other facts", **known).status_code
    # Whoever knows all of it has still to learn that it is over.
    over = page_with("facts", over=True, **known)
    assert (200, True) == (over.status_code, json_of(over)["over"])


@pytest.mark.parametrize(
    "page",
    ["tellers/x/", "failover/x/", f"ledger/runs/{UUID(int=0)}/", f"problems/runs/{UUID(int=0)}/"],
)
def test_what_is_forgotten_is_said_in_the_page_and_to_its_script(
    client: redis.Redis, page: str
) -> None:
    assert b"has forgotten this" in Client().get(f"/{page}", follow=True).content
    told = Client().get(f"/{page}", headers=NEWS)
    assert 404 == told.status_code
    assert "has forgotten this" in str(json_of(told)["gone"])


def json_of(response: HttpResponse) -> dict[str, object]:
    found: dict[str, object] = json.loads(response.content)
    return found
