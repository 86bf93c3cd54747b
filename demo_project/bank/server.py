"""The server of the bank, for commands that a user starts by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from demo_project.databases import server_file
from redis_locks.testing.server import EmbeddedServer, ServerError


@contextmanager
def bank_server() -> Iterator[None]:
    """Have a server and a database while the block runs; ``REDIS_URL`` names one that is there already.

    Raises:
        CommandError: There is no server binary, or it did not start.
    """
    with ExitStack() as stack:
        try:
            server = stack.enter_context(EmbeddedServer())
        except ServerError as error:
            raise CommandError(str(error)) from error
        point_everything_at(server.url)
        settings.BANK_OWNS_SERVER = server.pid is not None
        call_command("migrate", verbosity=0, interactive=False)
        yield


@contextmanager
def announced() -> Iterator[None]:
    """Let other commands on our database find our own server while the block runs."""
    if not settings.BANK_OWNS_SERVER:
        yield
        return
    path = server_file(settings.DATABASES["default"], settings.BASE_DIR)
    path.write_text(settings.REDIS_URL)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def point_everything_at(url: str) -> None:
    """Let this process, and the worker processes it starts, use the server; before their first connection."""
    os.environ["REDIS_URL"] = url
    settings.REDIS_URL = url
    # In place, before the first use, so that Django's cache handler sees it as well.
    settings.CACHES["default"]["LOCATION"] = url
