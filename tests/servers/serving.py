"""Start a server of the site as its users do, send it requests, and stop it."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tests.support.world import until

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
SITE = "tests.servers.site"

GUNICORN = (
    "gunicorn",
    f"{SITE}:wsgi",
    "--workers",
    "2",
    "--bind",
    "unix:{socket}",
    "--no-control-socket",
)
UVICORN = ("uvicorn", f"{SITE}:asgi", "--workers", "2", "--uds", "{socket}", "--lifespan", "off")


class Connection(http.client.HTTPConnection):
    """One to a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("site", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Serving:
    """A server of the site in processes of its own, for as long as the block lasts.

    Args:
        command: A module and its arguments; `{socket}` stands for where it listens.
        folder: Where its socket, its database and what it says are kept.
    """

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        self._socket = str(folder / "s")
        self._database = folder / "site.sqlite3"
        self._log = folder / "log"
        with sqlite3.connect(self._database) as database:
            database.execute("CREATE TABLE counter AS SELECT 0 AS value")
        database.close()
        filled = [part.format(socket=self._socket) for part in command]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *filled],
                env={**os.environ, "SITE_DATABASE": str(self._database), **environment},
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._clients = ThreadPoolExecutor(32)

    def __enter__(self) -> Self:
        try:
            until(self._answers, within=PATIENCE)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            self.get("/lost")
        except (OSError, http.client.HTTPException):
            return False
        return True

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> str:
        """The body of the answer, which must be 200."""
        with self.begin(path) as connection:
            response = connection.getresponse()
            body = response.read().decode()
            assert 200 == response.status, f"{response.status} {body}\n{self.log()}"
            return body

    @contextlib.contextmanager
    def begin(self, path: str) -> Iterator[Connection]:
        """Send a request; the client is gone when the block is left."""
        connection = Connection(self._socket)
        try:
            connection.request("GET", path)
            yield connection
        finally:
            connection.close()

    def send(self, path: str, times: int) -> list[Future[str]]:
        """Send so many requests at once."""
        return [self._clients.submit(self.get, path) for _ in range(times)]

    def total(self) -> int:
        """What is committed."""
        with sqlite3.connect(self._database) as database:
            (value,) = database.execute("SELECT value FROM counter").fetchone()
        database.close()
        return int(value)

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End every process of it at once."""
        self._clients.shutdown(wait=False)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
