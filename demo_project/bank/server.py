"""The server of the bank, and the one that is measured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import redis
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django_redis import get_redis_connection

from demo_project.databases import server_file
from redis_locks import LockError
from redis_locks.testing.server import EmbeddedServer, ServerError

from .persistence import no_own_server


class CannotMeasure(Exception):
    """Something is in the way of the measurements; the message says what."""


@contextmanager
def bank_server() -> Iterator[None]:
    """Have a server and a database while the block runs; ``REDIS_URL`` names a server to use.

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


@dataclass(frozen=True)
class MeasuredServer:
    """The server that a run measures.

    Attributes:
        conn: A client of it.
        url: Its address if it is not the bank's own server.
        directory: Where it writes its append-only file; "" if others have decided that.
    """

    conn: redis.Redis
    url: str = ""
    directory: str = ""


@contextmanager
def measured_server() -> Iterator[MeasuredServer]:
    """Have the server that is measured while the block runs.

    Where the bank has started its own server, another one is started. So the clicks of visitors are
    not counted, and do not wait for the disk. Otherwise ``REDIS_URL`` says what is to be measured.

    Raises:
        CannotMeasure: The server did not start, or ended during the block.
    """
    if no_own_server():
        yield MeasuredServer(get_redis_connection("default"))
        return
    # On the disk of the rows, if they are in SQLite: the usual temporary directory of many systems
    # is in memory.
    place = server_file(settings.DATABASES["default"], settings.BASE_DIR).parent
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(tempfile.TemporaryDirectory(".aof", "bank-", place))
            server = EmbeddedServer(("--dir", directory), use_environment=False)
            stack.enter_context(server)
        except (OSError, ServerError) as error:
            raise CannotMeasure(f"No server could be started to be measured: {error}") from error
        conn = stack.enter_context(server.client())
        with _end_is_told(conn):
            yield MeasuredServer(conn, server.url, directory)


@contextmanager
def _end_is_told(conn: redis.Redis) -> Iterator[None]:
    """Tell that this server has ended from a failure of the bank's own server."""
    try:
        yield
    except (LockError, redis.RedisError) as failure:
        try:
            conn.ping()
        except redis.RedisError as error:
            msg = f"The server that was measured does not answer: {error}"
            raise CannotMeasure(msg) from failure
        raise


def point_everything_at(url: str) -> None:
    """Let this process and its workers use the server; call it before their first connection."""
    os.environ["REDIS_URL"] = url
    settings.REDIS_URL = url
    # In place, before the first use, so that Django's cache handler sees it as well.
    settings.CACHES["default"]["LOCATION"] = url
