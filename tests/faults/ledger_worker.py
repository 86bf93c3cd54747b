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

from django.conf import settings  # noqa: E402 - after setup
from django.core.handlers.base import BaseHandler  # noqa: E402
from django.db import connections  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from redis_locks import Hold, Lock, redis_lock  # noqa: E402
from tests.faults.worker import say, serve  # noqa: E402
from tests.ledger.models import Counter  # noqa: E402
from tests.postgres import configured  # noqa: E402


class Ledger:
    def __init__(self, url: str, alias: str) -> None:
        self.url = url
        self.alias = alias
        self.rows = Counter.objects.using(alias)
        self.hold: Hold | None = None
        self.counter: Counter | None = None

    def increment(self, name: str, times: int, way: str) -> None:
        """Have one of the views called by Django, each time in a transaction that Django opens."""
        connections.settings[self.alias]["ATOMIC_REQUESTS"] = True
        options: dict[str, Any] = {"using": self.url, "wait": 120, "database": self.alias}

        def view(request: HttpRequest, name: str) -> HttpResponse:
            """Read and write back."""
            counter = self.rows.get(name=name)
            counter.value += 1
            counter.save()
            return HttpResponse()

        def inside(request: HttpRequest, name: str) -> HttpResponse:
            with Lock(name, **options):
                return view(request, name)

        decorated = redis_lock("{name}", **options)(view)
        settings.ROOT_URLCONF = tuple(
            path(f"{name}/<name>/", called)
            for name, called in (("inside", inside), ("decorated", decorated))
        )
        settings.MIDDLEWARE = []
        handler = BaseHandler()
        handler.load_middleware()
        for _ in range(times):
            request = HttpRequest()
            request.method, request.path_info = "POST", f"/{way}/{name}/"
            response = handler.get_response(request)
            assert response.status_code == 200
        say(done=times)

    def start(self, name: str, lease: float) -> None:
        """Acquire and read; what was read is written later, if the process gets there in time."""
        self.hold = Lock(name, using=self.url, wait=60, lease=lease).acquire()
        self.counter = self.rows.get(name=name)
        say(fencing_token=self.hold and self.hold.fencing_token)

    def read(self, name: str) -> None:
        """Read under the hold, as who writes it back is to do."""
        assert self.hold is not None
        self.counter = self.rows.fenced(self.hold).get(name=name)
        say(read=self.counter.value)

    def write(self, by: str, amount: int, *, unaware: bool = False) -> None:
        """Write what was read, plus `amount`; if `unaware`, by the fencing token alone."""
        assert self.hold is not None
        assert self.counter is not None
        hold = self.hold.fencing_token if unaware else self.hold
        value = self.counter.value + amount
        if by == "save":
            self.counter.value = value
            self.counter.save(hold=hold)
        else:
            self.rows.filter(pk=self.counter.pk).fenced(hold).update(value=value)
        say(written=value)

    def release(self) -> None:
        assert self.hold is not None
        self.hold.release()
        say(released=True)


def main(url: str, entry: str) -> None:
    with configured(json.loads(entry), "ledger") as alias:
        serve(Ledger(url, alias))


if __name__ == "__main__":
    main(*sys.argv[1:])
