"""A cluster that changes under locks: fail-overs, slots that move, nodes that stand still."""

from __future__ import annotations

import os
import random
import signal
import time
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.nodes import Nodes
from tests.history.workload import client_of

PREFIX: Final = "redis_locks"

PAUSE: Final = 0.15
"""The longest pause, in seconds, between two keys of a slot that moves: a slot with more keys takes
as long.
"""

FROZEN: Final = 1.0
"""For how many seconds a node stands still at most: the others must not take it for dead."""

NODE_TIMEOUT_MS: Final = 3000


class Cluster:
    """Three masters, each with a replica. Has what a run uses of `EmbeddedServer`."""

    def __init__(self) -> None:
        timeout = ("--cluster-node-timeout", str(NODE_TIMEOUT_MS))
        self._nodes = Nodes(masters=3, replicas=1, options=timeout)

    def __enter__(self) -> Self:
        self._nodes.__enter__()
        for node in self._nodes.everybody:
            # A fail-over that nobody planned may forget holds; see `Succession`.
            node.client.config_set("cluster-replica-no-failover", "yes")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._nodes.__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        return self._nodes.url

    def client(self) -> Any:
        """Return a client of all nodes."""
        return client_of(self.url)

    def fail_over(self, pick: float) -> None:
        """Let a master and its replica change places."""
        replicas = [node for node in self._nodes.everybody if node.follows() is not None]
        self._nodes.fail_over(replicas[int(pick * len(replicas))])

    def move(self, pick: float, partitions: int) -> None:
        """Move the slot of a partition, key by key, in any order."""
        chance = random.Random(pick)
        slot = self._nodes.slot(PREFIX, chance.randrange(partitions))
        source = self._nodes.having(slot)
        target = chance.choice([node for node in self._nodes.serving() if node is not source])
        self._nodes.begin_to_move(slot, source, target)
        keys = source.ask("GETKEYSINSLOT", slot, 1000)
        chance.shuffle(keys)
        for key in keys:
            self._nodes.carry(source, target, key)
            time.sleep(chance.uniform(0, PAUSE))
        self._nodes.finish_moving(slot, source, target)

    def freeze(self, pick: float) -> None:
        """Let a node stand still for a while."""
        node = random.Random(pick).choice(self._nodes.everybody)
        os.kill(node.server.pid, signal.SIGSTOP)
        try:
            time.sleep(FROZEN * pick)
        finally:
            os.kill(node.server.pid, signal.SIGCONT)
