"""A primary, its replica and the Sentinels that watch them: real servers, on ports of loopback."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from redis_locks.testing.server import EmbeddedServer
from tests.faults.programs import started_by
from tests.ports import free_ports
from tests.support.world import until

SERVICE = "bank"
# Sentinels break the connections of a server when they change its role.
_RETRY = Retry(ConstantBackoff(0.1), 5)

DOWN_AFTER_MS = 1000
"""How long a primary is silent until Sentinels replace it."""

# A full synchronisation would wait for 5 s for more replicas.
_AT_ONCE = ("--repl-diskless-sync-delay", "0")
_MONITOR = """
sentinel monitor {service} 127.0.0.1 {port} {quorum}
sentinel down-after-milliseconds {service} {down_after}
sentinel failover-timeout {service} 1000
"""


class Watched:
    """The service: what `CONNECTION` may name, and what may happen to it.

    Args:
        sentinels: How many Sentinels there are; a fail-over needs three.
        down_after_ms: How long a primary may be silent.
    """

    def __init__(self, *, sentinels: int = 3, down_after_ms: int = DOWN_AFTER_MS) -> None:
        self._resources = contextlib.ExitStack()
        self._ports = free_ports(2 + sentinels)
        self._down_after_ms = down_after_ms
        self.addresses = [("127.0.0.1", port) for port in self._ports[2:]]
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        self.url = f"redis+sentinel://{hosts}/{SERVICE}"

    def __enter__(self) -> Self:
        with self._resources:
            first, second, *_ = self._ports
            self._servers = {
                first: self._server(first),
                second: self._server(second, "--replicaof", f"127.0.0.1 {first}"),
            }
            folder = self._resources.enter_context(
                tempfile.TemporaryDirectory(prefix="rl-sentinel-", dir="/tmp")
            )
            self.sentinels = [self._sentinel(Path(folder), port) for port in self._ports[2:]]
            self._manager = Sentinel(self.addresses, sentinel_kwargs={"socket_timeout": 5})
            until(self.is_complete)
            self._resources = self._resources.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def _server(self, port: int, *options: str) -> EmbeddedServer:
        options = ("--port", str(port), "--bind", "127.0.0.1", *options)
        server = EmbeddedServer((*options, *_AT_ONCE), use_environment=False)
        self._resources.enter_context(server)
        self._resources.callback(server.kill)  # each would take its time to leave the others
        return server

    def _sentinel(self, folder: Path, port: int) -> redis.Redis:
        configuration = folder / f"{port}.conf"
        quorum = len(self.addresses) // 2 + 1
        configuration.write_text(
            _MONITOR.format(
                service=SERVICE, port=self._ports[0], quorum=quorum, down_after=self._down_after_ms
            )
        )
        command = f'exec {{server}} {shlex.quote(str(configuration))} "$@" --sentinel'
        with started_by(folder / f"{port}.sh", command):
            server = self._server(port)
        client = self._resources.enter_context(server.client())
        # They would take seconds to hear of each other, and of what became of a server.
        client.execute_command("SENTINEL DEBUG", "INFO-PERIOD", 100, "PUBLISH-PERIOD", 100)
        return client

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of whoever is the primary."""
        found: redis.Redis = self._manager.master_for(SERVICE, retry=_RETRY, **options)
        return found

    @property
    def primary(self) -> EmbeddedServer:
        """The server that the Sentinels take for the primary."""
        return self._servers[self._primary_port()]

    @property
    def replica(self) -> EmbeddedServer:
        """The other one."""
        (port,) = self._servers.keys() - {self._primary_port()}
        return self._servers[port]

    def _primary_port(self) -> int:
        until(lambda: len(self._named()) == 1)
        (port,) = self._named()
        return port

    def _named(self) -> set[int]:
        return {sentinel.sentinel_masters()[SERVICE]["port"] for sentinel in self.sentinels}

    def is_complete(self) -> bool:
        """Return whether the replica has everything, and every Sentinel sees all others."""
        with self.replica.client(retry=_RETRY) as client:
            follows = client.info("replication").get("master_link_status") == "up"
        return follows and all(self._sees_all(sentinel) for sentinel in self.sentinels)

    def _sees_all(self, sentinel: redis.Redis) -> bool:
        state = sentinel.sentinel_masters()[SERVICE]
        others = len(self.sentinels) - 1
        replicas = sentinel.sentinel_slaves(SERVICE)
        return (
            not state["is_sdown"]
            and state["num-other-sentinels"] == others
            and any(
                each["master-link-status"] == "ok" and not each["is_sdown"] for each in replicas
            )
        )

    def kill(self) -> int:
        """Kill the primary; return its port."""
        port = self._primary_port()
        self._servers[port].kill()
        return port

    def until_replaced(self, killed: int) -> None:
        """Wait until all Sentinels say that the other server is the primary."""
        until(lambda: self._named() == self._servers.keys() - {killed})

    def mend(self, killed: int) -> None:
        """Start what was killed, and wait until one follows the other."""
        self._servers[killed].restart()
        until(self.is_complete)

    def demote(self) -> None:
        """Exchange the two by hand; unlike Sentinels, leave the connections of clients alone."""
        primary, replica = self._primary_port(), self.replica
        (port,) = self._servers.keys() - {primary}
        with self._servers[primary].client() as old, replica.client() as new:
            until(lambda: _offset(old) == _offset(new))
            new.execute_command("REPLICAOF", "NO", "ONE")
            old.execute_command("REPLICAOF", "127.0.0.1", port)
        for sentinel in self.sentinels:
            sentinel.execute_command("SENTINEL REMOVE", SERVICE)
            sentinel.execute_command("SENTINEL MONITOR", SERVICE, "127.0.0.1", port, 1)

    @contextlib.contextmanager
    def a_writable_replica(self) -> Iterator[redis.Redis]:
        """A client that makes the replica differ from the primary, as if it had missed writes."""
        with self.replica.client() as client:
            client.config_set("replica-read-only", "no")
            yield client
            client.config_set("replica-read-only", "yes")


def _offset(client: redis.Redis) -> int:
    return int(client.info("replication")["master_repl_offset"])
