"""What a million locks cost: `python -m tests.benchmarks.million`.

All of them are held, and every tenth has a waiter. Prints the server's memory for each lock, and
how long an acquire, `locks list` and a page of the admin take beside ten locks and beside all of
them.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from statistics import median
from time import perf_counter
from typing import Any

FEW, MANY = 10, 1_000_000
ROUNDS = 15
LONGEST = 5.0
"""Seconds after which a question is asked no more."""

LEASE_MS = 7_200_000
WAITED_FOR = 10
"""One lock in so many has a waiter."""


def set_up(url: str) -> None:
    """Let this process use the server at `url`, a database in memory, and a user of the admin."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.REDIS_LOCKS = {"CONNECTION": url, "STATISTICS": False}
    settings.ALLOWED_HOSTS = ["testserver"]
    django.setup()
    call_command("migrate", verbosity=0)


def hold(url: str, first: int, until: int) -> None:
    """Let the locks of these numbers be held, and some waited for."""
    from tests.support.parties import ask

    for step, wait in ((1, 0), (WAITED_FOR, LEASE_MS)):
        asked = (
            (f"order:{number:07}", f"s{number}.{step}") for number in range(first, until, step)
        )
        ask(asked, wait=wait, using=url, lease_ms=LEASE_MS)


def questions() -> dict[str, Callable[[], object]]:
    """Return what is measured."""
    from django.contrib.admin.utils import quote
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client
    from django.urls import reverse

    from redis_locks import Lock

    browser = Client()
    browser.force_login(User.objects.create_superuser("million"))
    page = reverse("admin:redis_locks_lock_changelist")

    def acquire() -> None:
        with Lock("another"):
            pass

    def list_page() -> None:
        with redirect_stderr(io.StringIO()):
            call_command("locks", "list", "--limit", "20", stdout=io.StringIO())

    def admin_page() -> None:
        answer = browser.get(page)
        assert answer.status_code == 200, answer

    def lock_page() -> None:
        answer = browser.get(
            reverse("admin:redis_locks_lock_change", args=[quote("order:0000000")])
        )
        assert answer.status_code == 200, answer

    return {
        "acquire and release": acquire,
        "`locks list --limit 20`": list_page,
        "page of the admin's list": admin_page,
        "page of one lock": lock_page,
    }


def milliseconds(ask: Callable[[], object]) -> float:
    """Return the median of some calls, of fewer if they take long."""
    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < LONGEST:
        start = perf_counter()
        ask()
        times.append(perf_counter() - start)
    return 1000 * median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=int, default=MANY, help=f"how many ({MANY:,})")
    options = parser.parse_args()
    from redis_locks.testing.server import EmbeddedServer

    with EmbeddedServer(use_environment=False) as server:
        set_up(server.url)
        client: Any = server.client(socket_timeout=60)
        asked = questions()
        empty = client.info("memory")["used_memory"]
        hold(server.url, 0, FEW)
        beside_few = {label: milliseconds(ask) for label, ask in asked.items()}
        start = perf_counter()
        hold(server.url, FEW, options.locks)
        took = perf_counter() - start
        each = (client.info("memory")["used_memory"] - empty) / options.locks
        sys.stdout.write(
            f"{options.locks:,} locks held, every {WAITED_FOR}th waited for, in {took:.0f} s\n"
            f"the server's memory: {each:.0f} bytes a lock\n\n"
            f"| ms | beside {FEW} | beside {options.locks:,} |\n|---|---|---|\n"
        )
        for label, ask in asked.items():
            sys.stdout.write(f"| {label} | {beside_few[label]:.2f} | {milliseconds(ask):.2f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
