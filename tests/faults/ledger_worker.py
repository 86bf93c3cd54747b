"""One real process that writes rows under locks as told; see worker.py for the protocol.

Started as ``python ledger_worker.py URL DATABASE`` with DATABASE a DATABASES entry in JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

from django.db.transaction import atomic  # noqa: E402 - after setup

from redis_locks import Hold, Lock, LockError  # noqa: E402
from tests.faults.worker import say  # noqa: E402
from tests.ledger.models import Counter  # noqa: E402
from tests.postgres import configured  # noqa: E402


class Ledger:
    def __init__(self, url: str, alias: str) -> None:
        self.url = url
        self.alias = alias
        self.rows = Counter.objects.using(alias)
        self.hold: Hold | None = None
        self.counter: Counter | None = None

    def increment(self, name: str, times: int, scope: Any) -> None:
        """Read and write back in a transaction, under a lock taken inside it."""
        lock = Lock(name, using=self.url, wait=120, scope=scope, database=self.alias)
        for _ in range(times):
            with atomic(using=self.alias), lock:
                counter = self.rows.get(name=name)
                counter.value += 1
                counter.save()
        say(done=times)

    def start(self, name: str, lease: float) -> None:
        """Acquire and read; what was read is written later, if the process gets there in time."""
        self.hold = Lock(name, using=self.url, wait=60, lease=lease).acquire()
        self.counter = self.rows.get(name=name)
        say(fencing_token=self.hold and self.hold.fencing_token)

    def write(self, by: str, amount: int) -> None:
        assert self.hold is not None
        assert self.counter is not None
        value = self.counter.value + amount
        if by == "save":
            self.counter.value = value
            self.counter.save(hold=self.hold)
        else:
            self.rows.filter(pk=self.counter.pk).fenced(self.hold).update(value=value)
        say(written=value)

    def release(self) -> None:
        assert self.hold is not None
        self.hold.release()
        say(released=True)


def main(url: str, entry: str) -> None:
    with configured(json.loads(entry), "ledger") as alias:
        ledger = Ledger(url, alias)
        say(ready=os.getpid())
        for line in sys.stdin:
            do, options = json.loads(line)
            try:
                getattr(ledger, do)(**options)
            except LockError as error:
                say(error=type(error).__name__, message=str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
