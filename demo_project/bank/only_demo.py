"""One demo for each database: a second one finds the first, and leaves its login and runs alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import Error, connection, models
from django.db.transaction import atomic
from django.utils import timezone

from .liveness import SIGN_SECONDS, this_process
from .models import Demo


@contextmanager
def only_demo(site: str) -> Iterator[None]:
    """Be the demo of this database while the block runs.

    Args:
        site: The address of our site, for whoever starts a second demo.

    Raises:
        CommandError: Another demo runs on this database; the message says where its site is.
    """
    _claim(site)
    ended = threading.Event()
    thread = threading.Thread(target=_give_signs, args=(ended,), name="signs of life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _ours().update(seen=None)


def _claim(site: str) -> None:
    with atomic():
        row = Demo.locked()
        if row.is_alive:
            raise CommandError(
                f"A demo already runs on this database: {row.site} (process {row.process}). "
                "Stop it first, or set DEMO_DATABASE=another.sqlite3 for this one."
            )
        row.site, row.process, row.seen = site, this_process(), timezone.now()
        row.save()


def _give_signs(ended: threading.Event) -> None:
    try:
        while not ended.wait(SIGN_SECONDS):
            try:
                _ours().update(seen=timezone.now())
            except Error:
                # A database that is busy, or restarts, does not end the demo. The next sign
                # connects anew.
                connection.close()
    finally:
        connection.close()


def _ours() -> models.QuerySet[Demo]:
    return Demo.objects.filter(process=this_process())
