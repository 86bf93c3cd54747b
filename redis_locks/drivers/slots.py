"""Which node of a cluster has which slots, as far as this process knows.

`nodes` keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from time import monotonic
from typing import Any

from redis.crc import key_slot

from redis_locks.drivers.addresses import Address

SLOTS = 16_384


@lru_cache(maxsize=4096)
def slot_of(key: bytes) -> int:
    """Return the slot of a key."""
    return int(key_slot(key))


class SlotMap:
    """The owner of each slot, all known nodes, and which of them failed lately.

    Threads may share it: the map is replaced as a whole. It may be out of date, and a node then
    refuses a command for a slot that it does not have.
    """

    def __init__(
        self, seeds: Sequence[Address], remap: Callable[[Address], Address] | None = None
    ) -> None:
        self._seeds = tuple(seeds)
        self._remap = remap or (lambda address: address)
        self._owners: list[Address | None] = [None] * SLOTS
        self._nodes: tuple[Address, ...] = ()
        self._failed: dict[Address, float] = {}
        self.learned_at = float("-inf")
        """When the cluster was asked last, on the monotonic clock."""

    def owner(self, slot: int) -> Address | None:
        """Return the node that has a slot; None if nobody is known to."""
        return self._owners[slot]

    def owners(self) -> list[Address]:
        """Return each node that has slots, in the order of their first ones."""
        return list(dict.fromkeys(owner for owner in self._owners if owner is not None))

    def nodes(self) -> list[Address]:
        """Return all known nodes; those that failed come at the end, the latest failure last."""
        known = dict.fromkeys((*self._nodes, *self._seeds))
        return sorted(known, key=lambda address: self._failed.get(address, 0.0))

    def learn(self, reply: Sequence[Any], source: Address) -> bool:
        """Take over what `source` replied to CLUSTER SLOTS; False if it knows no slots."""
        owners: list[Address | None] = [None] * SLOTS
        nodes: dict[Address, None] = {}
        for first, last, *having in reply:
            addresses = [
                self.address((node[0] or b"").decode(), node[1], source) for node in having
            ]
            nodes.update(dict.fromkeys(addresses))
            owners[first : last + 1] = [addresses[0]] * (last + 1 - first)
        if nodes:
            self._owners, self._nodes, self.learned_at = owners, tuple(nodes), monotonic()
        return bool(nodes)

    def moved(self, slot: int, host: str, port: int, source: Address) -> None:
        """Note that `source` named another node as a slot's owner."""
        self._owners[slot] = self.address(host, port, source)

    def failed(self, address: Address) -> None:
        """Note that a node did not answer."""
        self._failed[address] = monotonic()

    def answered(self, address: Address) -> None:
        """Note that a node could be reached."""
        self._failed.pop(address, None)

    def is_doubtful(self, address: Address) -> bool:
        """Whether a node failed since it answered last."""
        return address in self._failed

    def address(self, host: str, port: int, source: Address) -> Address:
        """Return where to reach a node that `source` has named."""
        # A node that does not know the address leaves it out: then it is that of the source.
        return self._remap((source[0] if host in {"", "?"} else host, port))
