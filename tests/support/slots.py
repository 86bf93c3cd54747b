"""What a process knows of the slots of a cluster, and when it learns that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from redis_locks.drivers.cluster_link import ClusterLink

HERE = "127.0.0.1"


def learn_late(patch: pytest.MonkeyPatch, slot: int, former: int, present: int) -> list[int]:
    """Let the process learn of a fail-over between the first waiter's subscription and question.

    Another thread or task may meet a redirection then. Nodes are named by their ports. Returns
    where waiters have subscribed.
    """
    subscribe, ports = ClusterLink.subscribe, list[int]()

    async def subscribe_early(link: ClusterLink, keys: Sequence[bytes]) -> None:
        slots, is_first = link._nodes.slots, not ports
        if is_first:
            slots.moved(slot, HERE, former, (HERE, former))
        await subscribe(link, keys)
        ports.append(link._subscribed_at[1])
        if is_first:
            slots.moved(slot, HERE, present, (HERE, present))

    patch.setattr(ClusterLink, "subscribe", subscribe_early)
    return ports
