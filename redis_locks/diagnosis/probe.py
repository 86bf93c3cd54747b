"""Connections for questions about servers, beside those that carry locks."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry

from redis_locks.conf.settings import Settings, get_settings
from redis_locks.connections.backends import backend_for
from redis_locks.connections.resolution import resolve
from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.drivers.cluster import ClusterDriver
from redis_locks.drivers.connection_options import without_notifications
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.slots import SLOTS, slot_of
from redis_locks.values.keys import index_key

PATIENCE: Final = 2.0
"""Seconds for which a question waits for its reply at most, whatever the server's timeouts are."""


class Probe:
    """One server, asked over one connection, and what was read so far.

    Every property asks when first used and raises redis-py's errors.
    """

    def __init__(self, using: str | None, endpoint: Endpoint) -> None:
        self.settings: Settings = get_settings()
        self.using = using
        self.entry = self.settings.entry(using)
        """What names the server in the settings, as source text."""
        self.endpoint = endpoint
        self._pool = ConnectionPool(
            connection_class=self.endpoint.connection_class,
            **{
                **self.endpoint.kwargs,
                "protocol": 3,
                "decode_responses": True,
                "retry": Retry(NoBackoff(), 0),
                "socket_timeout": min(self.endpoint.reply_timeout, PATIENCE),
                "socket_connect_timeout": min(self.endpoint.connect_timeout, PATIENCE),
                **without_notifications(ConnectionPool),
            },
        )
        # Any: redis-py's own types leave open whether a reply is awaitable.
        self.client: Any = redis.Redis(connection_pool=self._pool)

    def connection(self) -> Any:
        """Return a connection of its own, for what changes the state of one.

        The caller disconnects it.
        """
        connection: Any = self._pool.make_connection()
        connection.connect()
        return connection

    def close(self) -> None:
        """Close the connection."""
        self._pool.disconnect()

    @property
    def address(self) -> Address:
        """Host and port of a cluster's node."""
        return self.endpoint.kwargs["host"], self.endpoint.kwargs["port"]

    @cached_property
    def index(self) -> bytes:
        """The index of a partition that this server has.

        A node may have none that the locks use.
        """
        first = index_key(self.settings.prefix, 0)
        if not self.endpoint.in_cluster:
            return first
        owner = _cluster_driver(self.using).nodes.slots.owner
        # Enough to meet every slot.
        indexes = (index_key(self.settings.prefix, number) for number in range(16 * SLOTS))
        return next((each for each in indexes if owner(slot_of(each)) == self.address), first)

    @cached_property
    def hello(self) -> dict[str, Any]:
        """What the server says of itself to everybody: server, version, mode, role."""
        return dict(self.client.execute_command("HELLO"))

    @cached_property
    def info(self) -> dict[str, Any]:
        """The server's INFO."""
        return dict(self.client.info())

    @cached_property
    def user(self) -> str:
        """The name of our user, for people; asks nothing."""
        return str(self.endpoint.kwargs.get("username") or "default")


def probes(using: str | None) -> list[Probe]:
    """Return a probe of the server that `using` names, or of each master of the cluster.

    Raises LinkBroken or LockBackendError when the nodes of a cluster cannot be learned.
    """
    where = resolve(using)
    if isinstance(where, Endpoint):
        return [Probe(using, where)]
    driver = _cluster_driver(using)
    run_blocking(driver.nodes.refresh())
    masters = driver.nodes.slots.owners()
    if not masters:
        raise LinkBroken(f"no node of {where.description} has any slot")
    return [Probe(using, where.node(address)) for address in masters]


def spread(using: str | None) -> Counter[Address | None]:
    """Return how many partitions each master of a cluster has; those under None have no master."""
    owner = _cluster_driver(using).nodes.slots.owner
    return Counter(owner(slot_of(keys[0])) for keys in backend_for(using).partitions())


def _cluster_driver(using: str | None) -> ClusterDriver:
    driver = backend_for(using).driver
    if not isinstance(driver, ClusterDriver):
        raise TypeError(f"{driver.description} is no cluster")
    return driver
