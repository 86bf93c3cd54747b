"""Where a cluster is: some of its nodes' addresses, and how to connect to any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.cluster import ClusterNode
from redis.connection import SSLConnection

from redis_locks.drivers.addresses import Address, addresses, parts
from redis_locks.drivers.endpoint import Endpoint

SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""Each with the scheme of the connection to a node."""

FORM = "redis+cluster://user:password@host:port,host:port"
"""What such a URL looks like. User, password and ports may be left out."""

_PORT = 6379

# Options of an asyncio cluster client that its connections do not take as they are.
_OF_THE_CLIENT = {"max_connections", "response_callbacks"}


@dataclass(frozen=True, slots=True, eq=False)
class ClusterEndpoint:
    """A cluster: the nodes to ask first, and a name for people without password.

    `remap` gives the address under which to reach a node, for the one that the cluster names.
    """

    seeds: tuple[Address, ...]
    any_node: Endpoint
    remap: Callable[[Address], Address] | None = None

    @property
    def description(self) -> str:
        """The URL, without user and password."""
        scheme = "rediss" if issubclass(self.any_node.connection_class, SSLConnection) else "redis"
        return f"{scheme}+cluster://{','.join(f'{host}:{port}' for host, port in self.seeds)}"

    @property
    def unheeded(self) -> tuple[str, ...]:
        """See `Endpoint`."""
        return self.any_node.unheeded

    def in_loop(self) -> tuple[type[Any], dict[str, Any]]:
        """Return the class and arguments of asyncio connections to its nodes; see `Endpoint`."""
        return self.any_node.in_loop()

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The arguments of connections to its nodes; see `Endpoint`."""
        return self.any_node.kwargs

    def node(self, address: Address) -> Endpoint:
        """Return how to connect to one node."""
        host, port = address
        kwargs = {**self.any_node.kwargs, "host": host, "port": port}
        description = f"the node {host}:{port}"
        return replace(self.any_node, kwargs=kwargs, description=description, in_cluster=True)

    def with_reply_timeout(self, seconds: float) -> ClusterEndpoint:
        """Return the same cluster; see `Endpoint`."""
        return replace(self, any_node=self.any_node.with_reply_timeout(seconds))

    def client(self) -> redis.RedisCluster:
        """Return a new redis-py client. Connects, and raises redis-py's errors."""
        options = {k: v for k, v in self.any_node.kwargs.items() if k not in {"host", "port"}}
        nodes = [ClusterNode(*seed) for seed in self.seeds]  # type: ignore[no-untyped-call]
        encrypted = issubclass(self.any_node.connection_class, SSLConnection)
        return redis.RedisCluster(
            startup_nodes=nodes, ssl=encrypted, address_remap=self.remap, **options
        )

    @classmethod
    def from_url(cls, url: str) -> ClusterEndpoint:
        """Return the cluster that a URL names. Connects to nothing.

        Raises:
            ValueError: The URL has another form.
            TypeError: redis-py does not know one of its options.
        """
        scheme, credentials, hosts, path, query = parts(url)
        if not hosts or path not in {"", "0"}:
            raise ValueError(f"the form is {FORM}")
        seeds = tuple(addresses(hosts, port=_PORT, form=FORM))
        endpoint = Endpoint.from_url(f"{SCHEMES[scheme]}://{credentials}node?{query}")
        if endpoint.kwargs.get("db"):
            raise ValueError(f"a cluster has no databases; the form is {FORM}")
        endpoint.blocking_connection()  # not connected, but it refuses unknown options
        return cls(seeds, endpoint)

    @classmethod
    def from_client(cls, client: Any) -> ClusterEndpoint:
        """Return the cluster a client of redis-py or valkey-py talks to. Connects to nothing."""
        manager: Any = client.nodes_manager
        seeds = tuple((node.host, int(node.port)) for node in manager.startup_nodes.values())
        if hasattr(client, "connection_kwargs"):  # an asyncio one
            options = dict(client.connection_kwargs)
            kind = options.pop("connection_class")
            options = {k: v for k, v in options.items() if k not in _OF_THE_CLIENT}
            return cls(
                seeds,
                Endpoint.from_pool(aioredis.ConnectionPool(kind, **options)),
                manager.address_remap,
            )
        node = client.get_default_node()
        of_node = getattr(node, "redis_connection", None) or node.valkey_connection
        endpoint = Endpoint.from_pool(of_node.connection_pool)
        # The client gives its nodes one of its own, which calls the user's.
        unheeded = ("redis_connect_func",) if client.user_on_connect_func else ()
        return cls(seeds, replace(endpoint, unheeded=unheeded), manager.address_remap)
