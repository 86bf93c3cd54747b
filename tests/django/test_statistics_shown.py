"""Statistics as `manage.py locks stats` and the admin show them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import Lock, LockLost, inspection
from redis_locks.statistics import LockStatistics
from tests.django.admin_pages import HOSTILE, page_of, text_of
from tests.django.command_calls import run
from tests.elsewhere import in_thread
from tests.support.commands import drawn, stats
from tests.support.parties import held
from tests.support.statistics import flush

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("counted")]

STATS = "admin:redis_locks_lock_stats"


@pytest.fixture
def used(counted: None) -> None:
    """A contended lock and a quiet one were used."""
    with held("busy"), held("quiet"):
        assert in_thread(Lock("busy", wait=0.05).acquire) is None
    flush()


def row(name: str = "a", **changes: int) -> LockStatistics:
    counts = dict.fromkeys(("timed_out", "lost", "deadlocks", "unavailable"), 0)
    counts |= {"acquired": 12345, "contended": 678}
    return LockStatistics(
        name, **counts | changes, wait_p50=0.0, wait_p99=0.0123, hold_p50=0.00017, hold_p99=2.5
    )


def test_the_most_contended_lock_comes_first(used: None) -> None:
    header, first, second = run("stats")[0].splitlines()
    assert [
        "NAME",
        "ACQUIRED",
        "CONTENDED",
        "TIMEOUTS",
        "WAIT50",
        "WAIT99",
        "HOLD50",
        "HOLD99",
    ] == header.split()
    assert ["busy", "1", "1", "1"] == first.split()[:4]
    assert ["quiet", "1", "0", "0", "0", "0"] == second.split()[:6]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [(["--sort", "name"], ["busy", "quiet"]), (["--day", "qu*"], ["quiet"]), (["none*"], [])],
)
def test_figures_are_filtered_and_sorted(
    used: None, arguments: list[str], names: list[str]
) -> None:
    assert names == [found["name"] for found in json.loads(run("stats", "--json", *arguments)[0])]


def test_without_figures_it_says_so_and_why(name: str) -> None:
    assert ("", "Nothing was counted in the last hour.\n") == run("stats")
    with override_settings(REDIS_LOCKS={"PREFIX": name, "STATISTICS": False}):
        assert 'REDIS_LOCKS["STATISTICS"] is False' in run("stats", "--day")[1]


@pytest.mark.parametrize(
    "rows",
    [
        [row("short", lost=1, timed_out=99999, deadlocks=3, unavailable=12345), row("x" * 300)],
        [row(f"account:{number}") for number in range(300)],
    ],
)
def test_a_table_fits_into_80_columns(rows: Sequence[LockStatistics]) -> None:
    lines = drawn(stats._FIGURES, map(stats._figures, rows), 80)
    assert len(rows) + 1 == len(lines)
    assert max(map(len, lines)) <= 80


def test_the_page_shows_the_figures_and_the_chart(viewer: Client, used: None) -> None:
    html = text_of(viewer, reverse(STATS))
    assert html.index(">busy<") < html.index(">quiet<")
    assert "2 acquired and 1 contended in the last hour" in html
    assert 60 == html.count('class="locks-bar-acquired"')
    assert 96 == text_of(viewer, reverse(STATS) + "?period=day").count('locks-bar-acquired"')
    found = text_of(viewer, reverse(STATS) + "?q=QUI&o=name")
    assert ">busy<" not in found
    assert ">quiet<" in found
    assert "No lock matches" in text_of(viewer, reverse(STATS) + "?q=none")
    # What is wrong is as good as missing.
    assert ">busy<" in text_of(viewer, reverse(STATS) + "?o=x&period=week")
    assert reverse(STATS) in text_of(viewer, reverse("admin:redis_locks_lock_changelist"))


def test_a_lock_s_page_shows_what_happened_to_it(viewer: Client) -> None:
    with pytest.raises(LockLost), Lock("a", renew=False, label="nightly report"):
        inspection.force_release("a")
    flush()
    html = text_of(viewer, page_of("a"))
    events = html[html.index("Recent events") :]
    order = [events.index(f">{kind}<") for kind in ("Lost", "Force-released", "Acquired")]
    assert sorted(order) == order
    assert "nightly report" in events
    assert "Redis does not know our hold any more" in events


@pytest.mark.parametrize("odd", HOSTILE[:4])
def test_hostile_names_are_text(viewer: Client, odd: str) -> None:
    with held(odd, label=odd):
        pass
    flush()
    for url in (reverse(STATS), page_of(odd)):
        html = text_of(viewer, url)
        assert "<script>alert" not in html
        assert "\u202e" not in html
    assert "\n" not in run("stats", "--format", "plain")[0].splitlines()[1]
