"""A primary and its replica, without Sentinels: the replica is stopped, cut off and promoted by hand."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Self

from redis_locks.testing.server import EmbeddedServer
from tests.ports import free_ports
from tests.support import timings
from tests.support.world import Observer, until

# Without these, the two look once a second how far a full synchronisation is.
_AT_ONCE = ("--repl-diskless-sync", "no", "--repl-diskless-load", "swapdb")


class Pair:
    """Two servers, the second of which follows the first. Clients know the first only."""

    def __init__(self) -> None:
        self._resources = contextlib.ExitStack()
        (self._port,) = free_ports(1)

    def __enter__(self) -> Self:
        with self._resources:
            self.primary = self._server("--port", str(self._port))
            self.replica = self._server()
            self._replica = self._resources.enter_context(self.replica.client())
            self.url = self.primary.url
            self.on_replica = Observer(self._replica)
            self.follow()
            self._resources = self._resources.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def _server(self, *options: str) -> EmbeddedServer:
        server = EmbeddedServer(("--bind", "127.0.0.1", *options, *_AT_ONCE), use_environment=False)
        return self._resources.enter_context(server)

    def follow(self) -> None:
        """Let the replica follow the primary; returns when it has everything."""
        self._replica.execute_command("REPLICAOF", "127.0.0.1", self._port)
        with self.primary.client() as client:
            until(lambda: "online" in str(client.info("replication")))

    def cut_off(self) -> None:
        """Let the replica get nothing more."""
        self._replica.execute_command("REPLICAOF", "127.0.0.1", "1")

    @contextlib.contextmanager
    def replica_stopped(self, patience: float = 0.05) -> Iterator[None]:
        """Inside, the replica is connected and stands still; nobody waits longer for it than that."""
        assert self.replica.pid is not None
        os.kill(self.replica.pid, signal.SIGSTOP)
        try:
            with timings.replicas_may_take(patience):
                yield
        finally:
            os.kill(self.replica.pid, signal.SIGCONT)
            self._replica.ping()

    def fail_over(self) -> None:
        """Kill the primary and make the replica one, with what it has."""
        self.primary.kill()
        self._replica.execute_command("REPLICAOF", "NO", "ONE")

    def mend(self) -> None:
        """Start the primary again, empty, and let the replica follow it."""
        self.primary.restart()
        self.follow()
