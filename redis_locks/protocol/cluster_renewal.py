"""Renewal on a cluster: a thread for each node, so that a dead node delays only its own leases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.nodes import Nodes
from redis_locks.drivers.slots import slot_of
from redis_locks.protocol.lease import Lease, Renewer, Runner


class NodeRenewer:
    """Renews leases apart by the node that had their slot when they were granted.

    When the slot moves, they are renewed where it is then, by the same thread.
    """

    heartbeat = None

    def __init__(self, nodes: Nodes, make: Callable[[], Renewer]) -> None:
        self._nodes = nodes
        self._make = make
        self._renewers: dict[Address | None, Renewer] = {}

    def add(self, lease: Lease) -> None:
        """Renew `lease`, or watch it end, until it is discarded, lost or garbage."""
        address = self._nodes.slots.owner(slot_of(lease.keys[0]))
        renewer = self._renewers.get(address)
        if renewer is None:
            renewer = self._renewers.setdefault(address, self._make())
        renewer.add(lease)

    def discard(self, lease: Lease) -> None:
        """Stop renewing `lease`."""
        for renewer in list(self._renewers.values()):
            renewer.discard(lease)

    def revoke(self, token: str) -> None:
        """Note that an operator ended the hold of `token`, if it is one of this process."""
        for renewer in list(self._renewers.values()):
            renewer.revoke(token)

    async def listening(
        self,
        run: Runner | None = None,  # noqa: ARG002 - as `Renewer`
    ) -> AbstractContextManager[object]:
        """Refuse: which process listens, only the node that it listens on knows."""
        msg = "crash_release=True needs a single server, not a cluster; use a short lease instead"
        raise ValueError(msg)
