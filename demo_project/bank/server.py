"""The server of the bank, for commands that a user starts by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

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
        _point_everything_at(server.url)
        settings.BANK_OWNS_SERVER = server.pid is not None
        call_command("migrate", verbosity=0, interactive=False)
        yield


def _point_everything_at(url: str) -> None:
    """Let this process, and the worker processes it starts, use the server."""
    os.environ["REDIS_URL"] = url
    settings.REDIS_URL = url
    # In place, before the first use, so that Django's cache handler sees it as well.
    settings.CACHES["default"]["LOCATION"] = url
