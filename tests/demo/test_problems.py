"""The four problems of locks on Redis: real processes, the book's lock and ours."""

from __future__ import annotations

from math import inf
from pathlib import Path
from urllib.parse import urlencode

import pytest
import redis
from django.test import Client
from django.urls import reverse

from demo_project.bank.problems.drawing import verdict_of
from demo_project.bank.problems.experiment import PROBLEMS, Course, run_problem
from demo_project.bank.proxy import proxy_for
from tests.servers.tls import HOST, Certificates, with_terminator
from tests.support.waiting import until

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("demo_project.urls"),
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

OVERDRAWN = "Overdrawn by 30.00: both withdrew. A was told after its withdrawal."
REFUSED = "Every cent is right: the server refused A's late withdrawal, and A was told."
RIGHT = "Every cent is right."


@pytest.mark.ci
@pytest.mark.parametrize(
    ("problem", "book", "ours"),
    [
        pytest.param("freeze", OVERDRAWN, REFUSED, marks=pytest.mark.ci),
        pytest.param("lease", OVERDRAWN, RIGHT, marks=pytest.mark.ci),
        pytest.param(
            "kill",
            f"{RIGHT} B could not see who holds the lock, and went on when the lease had ended.",
            f"{RIGHT} B saw who holds the lock, and went on when the lease had ended.",
            marks=pytest.mark.ci,
        ),
        pytest.param("cut", RIGHT, RIGHT, marks=pytest.mark.ci),
        (
            "reply",
            "The money is right, but A saw an error: it cannot know that its withdrawal was made.",
            RIGHT,
        ),
    ],
)
def test_what_becomes_of_the_money_and_who_is_told(
    client: redis.Redis, problem: str, book: str, ours: str
) -> None:
    theirs, redis_lock = run_problem(client, problem)
    assert (book, ours) == (verdict_of(theirs), verdict_of(redis_lock)), (theirs, redis_lock)
    assert [not book.startswith("Overdrawn"), True] == [theirs.is_right, redis_lock.is_right]
    assert not [*client.scan_iter("account:problem-*")]
    # Two are seen to hold the lock only where both believed it: a frozen holder, and one without a
    # renewal.
    both = [problem in {"freeze", "lease"}, problem == "freeze"]
    assert both == [are_seen_together(course) for course in (theirs, redis_lock)]
    if problem == "reply":
        for course in (theirs, redis_lock):
            wrote, lost = (moment_of(course, "A", kind) for kind in ("wrote", "lost"))
            assert wrote == lost <= moment_of(course, "B", "holds")


def are_seen_together(course: Course) -> bool:
    """Whether the page draws two holders beside each other."""
    ends = min(moment_of(course, "A", kind) for kind in ("released", "told", "killed"))
    return ends > moment_of(course, "B", "holds")


def moment_of(course: Course, who: str, kind: str) -> float:
    """When somebody did this; infinity if never."""
    found = (event.at for event in course.events if (event.who, event.kind) == (who, kind))
    return next(found, inf)


@pytest.mark.ci
def test_a_problem_is_started_on_the_page_and_shown_on_two_timelines(client: redis.Redis) -> None:
    visitor = Client()
    page = visitor.get(reverse("problems:all")).content.decode()
    for problem in PROBLEMS.values():
        assert problem.title in page
    start = reverse("problems:start", args=["cut"])
    address = visitor.post(start).headers["Location"]
    until(lambda: b"under way" not in visitor.get(address).content, within=100)
    page = visitor.get(address).content.decode()
    assert 2 == page.count("<svg ") == page.count("loses its connections")
    assert 404 == visitor.post(reverse("problems:start", args=["hope"])).status_code


def test_a_proxy_reaches_a_server_behind_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with with_terminator(certificates) as tls:
        server = f"rediss://{HOST}:{tls.port}/0?{urlencode(certificates.options())}"
        with proxy_for(server) as (proxy, url):
            client = redis.Redis.from_url(url, retry=None)
            pipe = client.pipeline(transaction=False)
            for _ in range(40):
                pipe.echo("x" * 100_000)
            assert {100_000} == {len(reply) for reply in pipe.execute()}
            proxy.lose_replies(b"INCR")
            with pytest.raises(redis.ConnectionError):
                client.incr("proxied")
            assert b"1" == client.get("proxied")
