"""Processes that live for long on one server, and what is sampled of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import psutil
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.longevity.vital_signs import OF_A_PROCESS, OF_A_SERVER, Chart, Trend
from tests.support import stored
from tests.support.children import Child, interpreter

PROCESSES: Final = 8

PATIENCE: Final = 60.0
"""Seconds within which all processes must come to their ends."""

AGED_MS: Final = 60_000
"""After so long the server forgets what it else remembers for an hour of a name that is used once.
"""

MINUTES_KEPT_MS: Final = 300_000

UNEXPECTED: Final = ("LockBackendError", "LockLost", "ProtocolMismatch", "broken")
"""Errors that nobody should be told here."""


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    trends: dict[str, Trend]
    told: Mapping[str, int]
    in_use: list[str]
    """The locks that were held or waited for when all had ended."""

    @property
    def failures(self) -> list[str]:
        """Return what should not have been, in words."""
        found = [
            f"{label} is not flat: {each}"
            for label, each in self.trends.items()
            if not each.is_flat
        ]
        found += [
            f"{count} times {what}"
            for what, count in self.told.items()
            if what.startswith(UNEXPECTED)
        ]
        found += [f"{name} is in use at the end" for name in self.in_use]
        return found


class Resident(Child):
    """One process, and how to ask it for what it knows of itself."""

    def __init__(self, url: str, number: int, share: float) -> None:
        super().__init__(
            interpreter("-m", "tests.longevity.resident", url, str(number), str(share))
        )
        self._seen = psutil.Process(self.pid)
        self.told: Counter[str] = Counter()

    def signs(self) -> dict[str, float]:
        """Return a sample."""
        self.say("\n")
        its: dict[str, Any] = json.loads(self.line())
        self.told = Counter(its["told"])
        return {
            "resident": self._seen.memory_info().rss,
            "blocks": its["blocks"],
            "threads": self._seen.num_threads(),
            "files": self._seen.num_fds(),
        }


def live(
    seconds: float,
    *,
    share: float,
    every: float,
    say: Callable[[str], object],
    processes: int = PROCESSES,
) -> Verdict:
    """Let processes use locks for so long, and return what was sampled.

    Args:
        seconds: How long.
        share: The part of a processor that all of them may use together.
        every: Seconds between two samples.
        say: Is told how far it is, in words.
        processes: How many.
    """
    chart = Chart()
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(use_environment=False))
        client = stack.enter_context(server.client())
        residents = [
            stack.enter_context(Resident(server.url, number, share / processes))
            for number in range(processes)
        ]
        for each in residents:
            each.signs()  # it has begun
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            time.sleep(every - now % every)
            age(client)
            found = {f"process {number}": each.signs() for number, each in enumerate(residents)}
            found["server"] = signs_of(client)
            for whose, signs in found.items():
                chart.add(whose, signs)
            sections = sum(each.told["sections"] for each in residents)
            left = max(0.0, end - time.monotonic())
            say(f"{sections:,} sections, {left / 60:.1f} min left; {in_words(found)}")
        for each in residents:
            each.wait(PATIENCE)
        told = sum((each.told for each in residents), Counter())
        in_use = used(client)
    return Verdict(dict(chart.trends()), told, in_use)


def age(client: redis.Redis) -> None:
    """Let the server forget names that are used once sooner than in an hour.

    Otherwise it would grow for the first hour.
    """
    for kind in ("once", "job"):
        names = iter(client.scan_iter(f"redis_locks{{*}}:lock:{kind}:*", count=1000))
        while some := list(islice(names, 500)):
            with client.pipeline(transaction=False) as pipe:
                for key in some:
                    pipe.pexpire(key, AGED_MS, lt=True)
                pipe.execute()
        for key in client.scan_iter("redis_locks{0}:stats:*", _type="hash"):
            figures = [figure for figure, _ in client.hscan_iter(key, f"*{kind}:*", count=1000)]
            if figures:
                client.hdel(key, *figures)
    # The figures of each minute, too, are kept for an hour.
    for key in client.scan_iter("redis_locks{0}:stats:60:*"):
        client.pexpire(key, MINUTES_KEPT_MS, lt=True)


def signs_of(client: redis.Redis) -> dict[str, float]:
    """Return a sample of the server."""
    info = client.info()
    return {
        "used_memory": info["used_memory"],
        "connections": info["connected_clients"],
        "channels": len(client.pubsub_channels()),
        "keys": client.dbsize(),
        "scripts": info["number_of_cached_scripts"],
    }


def used(client: redis.Redis) -> list[str]:
    """Return the locks that are held or waited for, less those left to their leases."""
    found = client.scan_iter("redis_locks{*}:lock:*", count=1000)
    return sorted(
        key.decode() for key in found if b":dropped:" not in key and not stored.is_idle(client, key)
    )


def in_words(found: dict[str, dict[str, float]]) -> str:
    """Return one sample of all in words, the processes' added up."""
    added: Counter[str] = Counter()
    for whose, signs in found.items():
        if whose != "server":
            added.update(signs)  # type: ignore[arg-type]
    processes = {OF_A_PROCESS[what]: value for what, value in added.items()}
    server = {OF_A_SERVER[what]: value for what, value in found["server"].items()}
    return "; ".join(
        f"{whose}: "
        + ", ".join(f"{sign.label} {value / sign.unit:,.4g}" for sign, value in each.items())
        for whose, each in (("processes", processes), ("server", server))
    )
