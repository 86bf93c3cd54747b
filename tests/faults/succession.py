"""A primary and its replica behind one address, which leads to the replica after a fail-over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any, Self

import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.ports import free_ports
from tests.support import timings
from tests.support.world import until

# Without these, the two look once a second how far a full synchronisation is.
_AT_ONCE = ("--repl-diskless-sync", "no", "--repl-diskless-load", "swapdb")


class Succession:
    """Two servers, of which one follows the other. Has what a run uses of `EmbeddedServer`.

    Args:
        options: Of both servers.
    """

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self._options = options
        self._resources = contextlib.ExitStack()
        self._ports = list(free_ports(2))

    def __enter__(self) -> Self:
        with self._resources:
            self._servers = [self._server(port) for port in self._ports]
            self._address = self._resources.enter_context(Proxy(self._servers[0].url))
            self.url = self._address.url
            self.follow()
            self._resources = self._resources.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def _server(self, port: int) -> EmbeddedServer:
        options = (*self._options, "--port", str(port), "--bind", "127.0.0.1", *_AT_ONCE)
        return self._resources.enter_context(EmbeddedServer(options, use_environment=False))

    def follow(self) -> None:
        """Let the replica follow the primary; returns when it has everything."""
        with self.client() as client, self.replica() as replica:
            replica.execute_command("REPLICAOF", "127.0.0.1", self._ports[0])
            client.set("written", "", px=1)
            # A replica acknowledges a write only when it has loaded what was there before.
            until(lambda: client.wait(1, 100))

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of whichever is the primary."""
        return redis.Redis.from_url(self.url, **options)

    def replica(self) -> redis.Redis:
        """Return a client of the other one."""
        return self._servers[1].client()

    def kill(self) -> None:
        """Kill the primary."""
        self._servers[0].kill()

    def restart(self) -> None:
        """Start the primary again, with its data."""
        self._servers[0].restart()
        self.follow()

    def cut_off(self) -> None:
        """Let the replica hear nothing more."""
        with self.replica() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")

    @contextlib.contextmanager
    def replica_stopped(self, patience: float = 0.05) -> Iterator[None]:
        """Inside, the replica is connected and stands still; waits for it are that short."""
        pid = self._servers[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            with timings.replicas_may_take(patience):
                yield
        finally:
            os.kill(pid, signal.SIGCONT)
            with self.replica() as client:
                client.ping()

    def fail_over(self) -> tuple[float, int]:
        """Replace the primary by its replica, with what that has.

        Returns when the replica was promoted, and the server's time then, in microseconds.
        """
        old, new = self._servers
        with new.client() as client:
            old.kill()
            client.execute_command("REPLICAOF", "NO", "ONE")
            seconds, micros = client.time()
        promoted = time.monotonic()
        self._servers.reverse()
        self._ports.reverse()
        self._address.lead_to(new.url)
        old.restart()
        self.follow()
        return promoted, seconds * 1_000_000 + micros
