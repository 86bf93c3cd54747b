"""What a worker process does: deposit under a lock until SIGTERM.

Each thing that happens becomes a line of JSON in a file of its own, written at once, so that what a
killed process did is known as well:

    ["in", at, fence]               acquired
    ["leave", at, believed_until]   about to release
    ["out", at, how]                released; how is "released" or "lost"
    ["no", at, wait]                not within its wait
    ["error", at, kind, message]
    ["torn", at]                    the account changed while this one shared the lock
"""

from __future__ import annotations

import json
import logging
import random
import signal
import time
from typing import Any, BinaryIO

import redis

from tests.faults import subjects
from tests.faults.counts import LONG_WAIT
from tests.faults.ledger import Ledger

PAUSE_AFTER_ERROR = 0.02


class Worker:
    """What one process does and writes down."""

    def __init__(self, orders: dict[str, Any], log: BinaryIO) -> None:
        if orders["subject"] != subjects.REDIS_PY:
            # The least that locks need: workers are started by the dozen.
            import django
            from django.conf import settings

            settings.configure(REDIS_LOCKS={"CONNECTION": orders["url"]})
            django.setup()
        self._subject = subjects.make(
            orders["subject"],
            orders["url"],
            orders["names"],
            mode=orders["mode"],
            lease=orders["lease"],
            renew=orders["renew"],
        )
        self._mode = orders["mode"]
        bank = redis.Redis.from_url(orders["ledger"])
        self._ledgers = [Ledger(bank, account) for account in orders["accounts"]]
        self._body = orders["body"]
        self._chance = random.Random(orders["seed"])
        self._log = log
        self._stopping = False

    def stop(self, *_: object) -> None:
        self._stopping = True

    def note(self, *what: object) -> None:
        self._log.write(json.dumps(what).encode() + b"\n")

    def run(self) -> None:
        self._subject.run(self._deposits())

    async def _deposits(self) -> None:
        while not self._stopping:
            try:
                await self._deposit()
            except Exception as error:  # noqa: BLE001 - counted by kind
                self.note("error", time.monotonic(), type(error).__name__, str(error)[:200])
                await self._subject.sleep(PAUSE_AFTER_ERROR)

    async def _deposit(self) -> None:
        # Mostly patient; now and then one that gives up at once or soon.
        wait = self._chance.choices([LONG_WAIT, 0, 0.02], [8, 1, 1])[0]
        held = await self._subject.acquire(wait)
        if held is None:
            self.note("no", time.monotonic(), wait)
            return
        self.note("in", time.monotonic(), held.fence)
        if self._mode == "exclusive":
            await self._pay_in(held)
        elif self._mode == "shared":
            await self._look(held)
        else:  # with others who do the same: nothing that they could spoil
            await self._take_time()
        now = time.monotonic()
        self.note("leave", now, min(held.believed_until, now))
        how = await held.release()
        self.note("out", time.monotonic(), how)

    async def _pay_in(self, held: subjects.Held) -> None:
        seen = [ledger.read(held.fence) for ledger in self._ledgers]
        await self._take_time()
        for ledger, balance in zip(self._ledgers, seen, strict=True):
            if balance is not None:
                # On purpose without asking whether the hold is lost: that is what the token is for.
                ledger.write(held.fence, balance, self._chance.randint(1, 9))

    async def _look(self, held: subjects.Held) -> None:
        versions = [ledger.look(held.fence) for ledger in self._ledgers]
        await self._take_time()
        changed = versions != [ledger.look(held.fence) for ledger in self._ledgers]
        now = time.monotonic()
        if changed and held.believed_until > now:
            self.note("torn", now)

    async def _take_time(self) -> None:
        await self._subject.sleep(self._chance.uniform(*self._body))


def work(orders: dict[str, Any]) -> None:
    """Deposit until SIGTERM; the main function of a process."""
    # What happens to holds is written down; on the terminal it would only be noise.
    logging.disable()
    with open(orders["log"], "ab", buffering=0) as log:  # noqa: PTH123 - unbuffered, to survive SIGKILL
        worker = Worker(orders, log)
        signal.signal(signal.SIGTERM, worker.stop)
        worker.run()
