"""Incidents, staged: the admin and `manage.py locks list` put the trouble first and name it."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Barrier, Event, Thread

import pytest
import redis
from django.test import Client
from django.urls import reverse

from redis_locks import DeadlockDetected, Lock, LockError, inspection
from tests.django.admin_pages import LIST, page_of, rows, text_of
from tests.django.command_calls import Terminal, run
from tests.django.command_line import Process
from tests.support.parties import held, waited_for
from tests.support.statistics import flush
from tests.support.world import until

pytestmark = pytest.mark.django_db

OTHERS = [f"calm:{number}" for number in range(4)]


@contextmanager
def calm() -> Iterator[None]:
    """Locks with which all is well."""
    with held(OTHERS[0]), held(OTHERS[1]), held(OTHERS[2]), held(OTHERS[3]):
        yield


@contextmanager
def worker(name: str, lease: str) -> Iterator[Process]:
    """Another process that holds a lock."""
    with Process("run", name, "--lease", lease, "--", "sleep", "60") as process:
        # Until it listens, which tells it from a dead one.
        until(lambda: bool((lock := inspection.lock(name)) and lock.holders[0].held_for > 1))
        yield process
    with suppress(LockError):
        inspection.force_release(name)


def plain(html: str) -> str:
    """What a page says first."""
    (verdict,) = re.findall(r'<p class="locks-verdict.*?</p>', html, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", verdict).split())


def first_line(*arguments: str) -> tuple[str, list[str]]:
    """The headline on a terminal, as one line, and the first row, in words."""
    lines = run("list", *arguments, out=Terminal())[0].splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("NAME"))
    return " ".join(lines[:place]), lines[place + 1].split()


def test_a_dead_holder_is_found_however_long_its_lease(
    viewer: Client, name: str, client: redis.Redis
) -> None:
    client.flushdb()  # another test may have let a holder die
    with worker(name, "3600") as process, calm():
        process.send(signal.SIGKILL)
        until(lambda: "gone" in first_line()[1])
        said, row = first_line()
        html = text_of(viewer, reverse(LIST))
        only = rows(text_of(viewer, f"{reverse(LIST)}?gone=on"))
        (lock,) = json.loads(run("list", name, "--json")[0])
        shown = run("show", name)[0]
    assert f"A holder of {name} is gone, or has detached its hold." in said
    assert row[0].startswith(name[:6])
    assert f"A holder of {name} is gone, or has detached its hold." in plain(html)
    assert name in rows(html)[0]
    assert "holder gone" in rows(html)[0]
    assert 'href="/admin/redis_locks/lock/?gone=on">1</a>' in html
    assert (1, True) == (len(only), name in only[0])
    assert "gone" == lock["state"]
    assert "The holder's process is not connected" in shown


@pytest.mark.usefixtures("own_prefix")
def test_a_lock_that_stays_closed_has_no_holder_that_could_die(viewer: Client) -> None:
    with Lock("nightly", at_least=600):
        pass
    with held("calm"):
        until(lambda: inspection.locks(names=["nightly"])[0].holders[0].held_for > 2.2)
        said, row = first_line()
        html = text_of(viewer, reverse(LIST))
    assert "Nobody waits." == said
    assert "gone" not in row
    assert "holder gone" not in "".join(rows(html))


@pytest.mark.ci
def test_a_stuck_holder_is_found_while_others_wait(viewer: Client, name: str) -> None:
    # Stale for the last third of its lease.
    with worker(name, "15") as process, calm(), waited_for(name):
        process.send(signal.SIGSTOP)
        until(lambda: "stale" in first_line()[1])
        said, row = first_line()
        html = text_of(viewer, reverse(LIST))
        shown = run("show", name)[0]
    assert f"The lease of {name} is not being renewed." in said
    assert row[0].startswith(name[:6])
    assert name in rows(html)[0]
    assert "Not renewed" in rows(html)[0]
    assert f"The lease of {name} is not being renewed." in plain(html)
    assert "the process is paused or blocked" in shown


@pytest.mark.usefixtures("own_prefix")
def test_a_deadlock_is_told_with_sessions_locks_and_lines_of_code(viewer: Client) -> None:
    victims: list[DeadlockDetected] = []
    both, done = Barrier(2), Event()

    def transfer(one: str, other: str) -> None:
        with Lock(one, label=f"from {one}"):
            both.wait()
            try:
                with Lock(other, label=f"from {one}", wait=20):
                    pass
            except DeadlockDetected as error:
                victims.append(error)
            done.wait()

    threads = [Thread(target=transfer, args=each) for each in (("alice", "bob"), ("bob", "alice"))]
    with calm():
        for thread in threads:
            thread.start()
        until(lambda: bool(victims))
        time.sleep(0.1)  # the log and the statistics hear of it a moment later
        flush()
        said, row = first_line()
        html = text_of(viewer, reverse(LIST))
        page = text_of(viewer, page_of_deadlocks())
        tree = run("blocking")[1]
        done.set()
        for thread in threads:
            thread.join()
        # It is told of for an hour, also of locks that nobody holds any more.
        later = text_of(viewer, page_of_deadlocks())
    assert re.search(r"A deadlock was broken \S+ ago, at (alice|bob)\.", said)
    assert row[0] in {"alice", "bob"}
    assert "deadlock" in row
    assert re.search(r"A deadlock was broken \S+ ago, at (alice|bob)\.", plain(html))
    assert {"alice", "bob"} == {
        each for each in ("alice", "bob") if each in "".join(rows(html)[:2])
    }
    assert f'href="{page_of_deadlocks()}" class="locks-badge"' in rows(html)[0]
    for text in (page, later):
        assert "thread Thread-" in text
        assert "test_incidents.py:" in text
        assert f'href="{page_of("alice")}"' in text
        assert f'href="{page_of("bob")}"' in text
    assert "test_incidents.py:" in tree


def page_of_deadlocks() -> str:
    return reverse("admin:redis_locks_lock_deadlocks")


@pytest.mark.ci
@pytest.mark.usefixtures("own_prefix")
def test_a_convoy_is_told_from_a_stuck_lock(viewer: Client) -> None:
    over = Event()

    def take_turns() -> None:
        while not over.is_set():
            with Lock("account:1", wait=60):
                over.wait(0.3)

    threads = [Thread(target=take_turns) for _ in range(10)]
    with calm():
        for thread in threads:
            thread.start()
        until(lambda: len(inspection.parties().waiters) == 9)
        time.sleep(4)
        flush()
        looks: list[tuple[str, list[str]]] = []
        until(lambda: looks.append(first_line()) or "convoy" in looks[-1][1])
        said, row = looks[-1]
        until(lambda: "convoy" in rows(text_of(viewer, reverse(LIST)))[0])
        until(lambda: "demand is above" in run("show", "account:1")[0])
        shown = run("show", "account:1")[0]
        over.set()
        for thread in threads:
            thread.join()
    assert "account:1" == row[0]
    assert re.search(r"More callers come than account:1 can serve: a newcomer waits about \d", said)
    advice = " ".join(shown.split())
    assert re.search(
        r"Holds are as usual: demand is above what the lock can serve\. "
        r"A newcomer waits about \d\.\ds\. "
        r"Consider a shorter section, sharding the name, or a semaphore\.",
        advice,
    )


@pytest.mark.usefixtures("own_prefix")
def test_waiters_are_counted_once_however_many_locks_they_want(viewer: Client) -> None:
    with (
        held("a"),
        held("b"),
        waited_for("a", also=("b",)),
        waited_for("a", also=("b",)),
        waited_for("b", also=("a",)),
    ):
        said, _ = first_line()
        html = text_of(viewer, reverse(LIST))
        stats = text_of(viewer, reverse("admin:redis_locks_lock_stats"))
        for waiter in inspection.parties().waiters:
            inspection.cancel(waiter)
    assert "3 waiters in 6 places at 2 locks." in said
    assert "3 waiters in 6 places at 2 locks." in plain(html)
    assert "3 waiters in 6 places at 2 locks." in plain(stats)
    assert "in 6 places" in html
