"""The nodes of a cluster: a driver for each, and which node has which slots.

`cluster`, `cluster_link` and the renewal of each node's leases use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import Driver, LinkBroken, Unreachable
from redis_locks.drivers.breaker import Away
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.refusals import reply_error
from redis_locks.drivers.resp import ErrorReply, pack
from redis_locks.drivers.slots import SlotMap

T = TypeVar("T")

_CLUSTER_SLOTS = pack((b"CLUSTER", b"SLOTS"))
_ASKED_LATELY = 0.1
"""Seconds for which nobody asks again who has which slots."""


class Nodes:
    """What all links of the threads of a process, or of an event loop, to a cluster share.

    Only `slots`, which node has which slots, is the same in the whole process.
    """

    def __init__(
        self, cluster: ClusterEndpoint, driver_of: Callable[[Endpoint], Driver], slots: SlotMap
    ) -> None:
        self.description = cluster.description
        self.reply_timeout = cluster.any_node.reply_timeout
        self.pause_after = cluster.any_node.pause_after
        self.slots = slots
        self._cluster = cluster
        self._driver_of = driver_of
        self._drivers: dict[Address, Driver] = {}

    def driver(self, address: Address) -> Driver:
        """Return the driver of one node."""
        found = self._drivers.get(address)
        if found is None:
            made = self._driver_of(self._cluster.node(address))
            found = self._drivers.setdefault(address, made)
        return found

    def drivers(self) -> list[Driver]:
        """Return the drivers of all nodes that were of use so far."""
        return list(self._drivers.values())

    def any_driver(self) -> Driver:
        """Return the driver of some node, for what is the same on all."""
        return self.driver(self.slots.nodes()[0])

    def failed(self, address: Address) -> None:
        """Note that a node does not answer."""
        self.slots.failed(address)
        self.driver(address).drop_idle()

    async def owner(self, slot: int) -> Address:
        """Return the node that has a slot; asks the cluster if that is not known or in doubt.

        Raises LinkBroken when no node has it, Unreachable when no node answers.
        """
        address = self.slots.owner(slot)
        if address is None or self.slots.is_doubtful(address):
            await self.refresh()
            address = self.slots.owner(slot)
        if address is None:
            raise LinkBroken(f"no node of {self.description} has the slot {slot}")
        return address

    async def refresh(self) -> None:
        """Ask for the owners of all slots, unless that was done a moment ago.

        Raises Unreachable when no node answers, LockBackendError when our user may not ask.
        """
        if monotonic() - self.slots.learned_at < _ASKED_LATELY:
            return
        await self.first(self._learn_from)

    async def first(self, work: Callable[[Address], Awaitable[T | None]]) -> T | None:
        """Do something with one node after the other, and return the first result that is not None.

        Raises Unreachable when each attempt ends in LinkBroken.
        """
        failure: LinkBroken | None = None
        answers = 0
        for address in self.slots.nodes():
            try:
                result = await work(address)
            except LinkBroken as error:
                failure = error
                self.failed(address)
                continue
            answers += 1
            self.slots.answered(address)
            if result is not None:
                return result
        if not answers:
            msg = f"no node of {self.description} can be reached: {failure}"
            raise (Away if isinstance(failure, Away) else Unreachable)(msg)
        return None

    async def _learn_from(self, address: Address) -> bool | None:
        driver = self.driver(address)
        link = await driver.checkout()
        try:
            (reply,) = await link.read((_CLUSTER_SLOTS,), ())
        finally:
            driver.checkin(link)
        if isinstance(reply, ErrorReply):
            raise reply_error(reply, self._cluster.node(address))
        return self.slots.learn(reply, address) or None

    def refusal(self, reply: ErrorReply) -> Exception:
        """Return what to raise for an error reply of some node."""
        return reply_error(reply, self._cluster.any_node)
