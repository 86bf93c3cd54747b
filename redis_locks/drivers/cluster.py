"""A cluster as one driver: each call goes to the node that has its partition.

`connections.backends` makes it. Above it, only renewal knows of nodes. A node that does not have
the slot refuses a call and does nothing. A call whose connection broke is repeated with its token.
So the core handles a cluster as it handles a broken link: it tries again on a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import Driver, Link, WaitsInPlace, run_blocking
from redis_locks.drivers.blocking import SubscriptionLink
from redis_locks.drivers.breaker import Breaker
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.cluster_link import ClusterLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.nodes import Nodes
from redis_locks.drivers.slots import SlotMap

T = TypeVar("T")


class ClusterDriver(WaitsInPlace):
    """Hands out links to a cluster, over a driver of each of its nodes.

    One node's failure says nothing about the links to others; see `Nodes`.
    """

    suspends = False

    def __init__(self, nodes: Nodes) -> None:
        self.description = nodes.description
        self.nodes = nodes
        self.reply_timeout = nodes.reply_timeout
        self.pause_after = nodes.pause_after

    @property
    def breakers(self) -> list[Breaker]:
        """The breakers of the nodes that were of use so far."""
        return [breaker for driver in self.nodes.drivers() for breaker in driver.breakers]

    def unshared(self) -> ClusterDriver:
        """Refuse: a link to a cluster changes its connections by itself; see `replication`."""
        raise ValueError(
            "replicas (also REDIS_LOCKS['REPLICAS']) needs a single server with its replicas, not "
            "a cluster; leave it out, and have resources check fencing tokens"
        )

    def take(self, token: str = "") -> None:
        """Return None: a link to a cluster asks several servers; see `Driver`."""

    async def checkout(self, token: str = "") -> Link:
        """Return a link; see `Driver`. It connects to a node when it first needs it."""
        return ClusterLink(self.nodes, token)

    def checkin(self, link: Link, token: str = "") -> None:  # noqa: ARG002 - the link knows it
        """Give the links to nodes back; broken ones are dropped."""
        if isinstance(link, ClusterLink):
            link.give_back()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await self.nodes.any_driver().sleep(seconds)

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run clean-up to its end; see `Driver`."""
        return await self.nodes.any_driver().finish(coroutine)


class BlockingClusterDriver(ClusterDriver):
    """The driver of all threads of a process."""

    def __init__(self, cluster: ClusterEndpoint, driver_of: Callable[[Endpoint], Driver]) -> None:
        super().__init__(Nodes(cluster, driver_of, SlotMap(cluster.seeds, cluster.remap)))

    def open_subscription(self) -> SubscriptionLink:
        """Return a link that receives which holds of this process another process has ended.

        Any node will do: what is sent on ordinary channels reaches them all.
        """

        async def listen_to(address: Address) -> SubscriptionLink:
            driver: Any = self.nodes.driver(address)
            return cast("SubscriptionLink", driver.open_subscription())

        return cast("SubscriptionLink", run_blocking(self.nodes.first(listen_to)))


class AsyncClusterDriver(ClusterDriver):
    """The driver of one event loop."""

    suspends = True

    def __init__(
        self, cluster: ClusterEndpoint, driver_of: Callable[[Endpoint], Driver], slots: SlotMap
    ) -> None:
        super().__init__(Nodes(cluster, driver_of, slots))
        self.renewer: Any = None
        """As `AsyncDriver.renewer`."""

    async def aclose(self) -> None:
        """Close the links to all nodes."""
        for driver in self.nodes.drivers():
            await cast("Any", driver).aclose()
