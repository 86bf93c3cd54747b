"""Clerks that book transfers, in each way under the same faults: lost replies, killed clerks."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import asdict, replace
from functools import partial

import redis
from django.conf import settings

from demo_project.bank.accounts import delete_accounts, read_balances, seed_accounts
from demo_project.bank.background import at_once
from demo_project.bank.payment import Order
from demo_project.bank.processes import Actor, ActorFailed
from demo_project.bank.proxy import Proxy, proxy_for

from .entries import WAYS, Entry
from .reconciliation import Operation, Report

CLERK = "demo_project.bank.ledger.clerk"
CLERKS = 3
ACCOUNTS = "ABCD"
OPENING = 100_000
OPERATIONS = 120
LARGEST_CENTS = 500
LOST_EVERY = 5
KILLS = 3
LONGEST_LIFE_SECONDS = 0.004
"""A clerk is killed so soon after it was given an operation, which is when it may have done it or
not.
"""
MOST_ATTEMPTS = 4
PROGRESS_SECONDS = 0.5
LONGEST_SECONDS = 60.0
"""How long a clerk may take to start, or for one operation. It takes milliseconds, or a lease on a
bad day.
"""

Progress = Callable[[dict[str, tuple[int, int]]], None]
"""Is told by way how many operations are over, and how many there are."""


def run_ledger(
    conn: redis.Redis, count: int = OPERATIONS, progress: Progress = lambda _: None
) -> list[Report]:
    """Book the same operations in each way at the same time; blocks for some seconds.

    Raises:
        ActorFailed: A clerk did not start.
        redis.RedisError: The server could not be asked.
    """
    operations = [_operation(number) for number in range(1, count + 1)]
    offices = [_Office(conn, way, operations) for way in WAYS]
    runs = at_once([office.run for office in offices])
    while wait(runs, PROGRESS_SECONDS).not_done:
        progress({office.way: (office.over, count) for office in offices})
    return [run.result() for run in runs]


def _operation(number: int) -> Operation:
    sender, recipient = random.sample(ACCOUNTS, 2)
    cents = random.randint(1, LARGEST_CENTS)  # noqa: S311 - no secret
    return Operation(f"#{number}", sender, recipient, cents)


class _Office:
    """The operations of one way, and the desks that its clerks work at."""

    def __init__(self, conn: redis.Redis, way: str, operations: Sequence[Operation]) -> None:
        self.way = way
        self.over = 0
        self._conn = conn
        self._run = f"ledger-{uuid.uuid4().hex[:8]}"
        self._ledger = f"{self._run}-{way}"
        self._open = deque(operations)
        self._closed: list[Operation] = []
        self._lock = threading.Lock()
        self._given = 0
        self._killed = 0
        step = max(1, len(operations) // (KILLS + 1))
        self._kills = {step * number for number in range(1, KILLS + 1)}

    def run(self) -> Report:
        accounts = [self._account(name) for name in ACCOUNTS]
        seed_accounts(self._conn, dict.fromkeys(accounts, OPENING))
        try:
            with proxy_for(settings.REDIS_URL) as (proxy, url):
                proxy.lose_replies(b"RPUSH", every=LOST_EVERY)
                started = time.monotonic()
                desks = at_once([partial(self._keep_desk, url)] * CLERKS)
                wait(desks)
                for desk in desks:
                    desk.result()
                seconds = time.monotonic() - started
                return self._report(accounts, proxy, seconds)
        finally:
            delete_accounts(self._conn, accounts)
            self._conn.delete(self._ledger, *map(self._marker, self._closed))

    def _account(self, name: str) -> str:
        return f"{self._run}-{self.way}-{name}"

    def _order(self, operation: Operation) -> Order:
        return Order(
            self._account(operation.sender),
            self._account(operation.recipient),
            operation.cents,
            f"{self._ledger}-{operation.id}",
        )

    def _marker(self, operation: Operation) -> str:
        return self._order(operation).marker

    def _keep_desk(self, url: str) -> None:
        """Have a clerk at this desk, and another when it is killed, until no operation is left."""
        job = {"way": self.way, "url": url, "ledger": self._ledger}
        while self._open:
            with Actor("clerk", CLERK, job) as clerk:
                if clerk.hear(LONGEST_SECONDS) is None:
                    raise ActorFailed("A worker of the ledger ended before it began.")
                while self._give_next(clerk):
                    pass

    def _give_next(self, clerk: Actor) -> bool:
        """Have an operation booked; False if there was none, or if the clerk was killed."""
        with self._lock:
            if not self._open:
                return False
            operation = self._open.popleft()
            self._given += 1
            is_killed = self._given in self._kills
        clerk.tell(json.dumps(asdict(self._order(operation))))
        if is_killed:
            time.sleep(random.uniform(0, LONGEST_LIFE_SECONDS))  # noqa: S311 - no secret
            clerk.kill()
        said = clerk.hear(LONGEST_SECONDS)
        answer = said.kind if said else "none"
        if answer == "unknown":
            # A lost reply is one of the faults. A server that does not answer us either is the end.
            self._conn.ping()
        operation = replace(
            operation,
            attempts=operation.attempts + 1,
            is_acknowledged=answer in {"booked", "found"},
        )
        is_over = answer in {"booked", "found", "refused"} or operation.attempts >= MOST_ATTEMPTS
        with self._lock:
            self._killed += is_killed
            self.over += is_over
            if is_over:
                self._closed.append(operation)
            else:
                # Its caller does not know whether it was made, and asks for it again under the same
                # id.
                self._open.appendleft(operation)
        return said is not None and not is_killed

    def _report(self, accounts: Sequence[str], proxy: Proxy, seconds: float) -> Report:
        after = read_balances(self._conn, accounts)
        kept = [Entry(**json.loads(entry)) for entry in self._conn.lrange(self._ledger, 0, -1)]
        return Report(
            self.way,
            sorted(self._closed, key=lambda operation: int(operation.id[1:])),
            [self._shown(entry) for entry in kept],
            dict.fromkeys(ACCOUNTS, OPENING),
            dict(zip(ACCOUNTS, after.values(), strict=True)),
            proxy.lost,
            self._killed,
            round(seconds, 2),
        )

    def _shown(self, entry: Entry) -> Entry:
        """The entry with the short names of the page."""
        return replace(
            entry,
            operation=entry.operation.rpartition("-")[2],
            sender=entry.sender[-1],
            recipient=entry.recipient[-1],
        )
