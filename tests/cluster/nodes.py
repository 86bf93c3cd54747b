"""A real cluster on loopback, of embedded servers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from redis_locks.testing.server import EmbeddedServer
from tests.ports import free_ports
from tests.support.keys import index_key, partition_of
from tests.support.world import PATIENCE, until

NODE_TIMEOUT_MS = 1000

MANUAL_FAILOVER = 6.0
"""Seconds after which a server has given up a planned fail-over that did not come about: it allows
5.
"""


class Node:
    """One server of a cluster, and a client of it alone."""

    def __init__(self, options: Sequence[str]) -> None:
        self.port, self.bus = free_ports(2)
        self.server = EmbeddedServer(
            (
                *("--port", str(self.port), "--bind", "127.0.0.1"),
                *("--cluster-enabled", "yes", "--cluster-port", str(self.bus)),
                *("--cluster-announce-ip", "127.0.0.1"),
                *("--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
                # A full synchronisation would wait for 5 s for more replicas.
                *("--repl-diskless-sync-delay", "0"),
                *options,
            ),
            use_environment=False,
        )
        self.client: Any = None
        self.id = ""

    def start(self) -> None:
        self.server.start()
        self.client = self.server.client(decode_responses=True, socket_timeout=20)
        self.id = self.ask("MYID")

    def stop(self) -> None:
        if self.client is not None:
            self.client.close()
        self.server.stop()

    def ask(self, subcommand: str, *words: Any) -> Any:
        return self.client.execute_command(f"CLUSTER {subcommand}", *words)

    def is_ready(self, known: int) -> bool:
        info = self.ask("INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == known

    def calls(self, command: str) -> int:
        """How often a command was called, by clients or scripts."""
        stats = self.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))

    def follows(self) -> int | None:
        """The port of its master; None if it is one."""
        found = self.client.info("replication")
        return found["master_port"] if found["role"] == "slave" else None

    def is_in_step(self) -> bool:
        """Whether it hears its master."""
        return self.client.info("replication").get("master_link_status") == "up"

    def errors(self) -> int:
        """How many commands were refused."""
        return int(self.client.info("stats")["total_error_replies"])


class Nodes:
    """A cluster of some masters, each with so many replicas."""

    def __init__(self, masters: int = 3, replicas: int = 0, options: Sequence[str] = ()) -> None:
        self.masters = [Node(options) for _ in range(masters)]
        self.replicas = [Node(options) for _ in range(masters * replicas)]

    @property
    def everybody(self) -> list[Node]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in self.masters)}"

    def __enter__(self) -> Self:
        try:
            for node in self.everybody:
                node.start()
            self._introduce(self.everybody)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _introduce(self, nodes: Sequence[Node]) -> None:
        share = REDIS_CLUSTER_HASH_SLOTS // len(self.masters) + 1
        for number, node in enumerate(self.masters):
            first = number * share
            last = min(first + share, REDIS_CLUSTER_HASH_SLOTS) - 1
            node.ask("ADDSLOTSRANGE", first, last)
            node.ask("SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            node.ask("MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
        for node in nodes:
            until(lambda node=node: int(node.ask("INFO")["cluster_known_nodes"]) == len(nodes))
        for number, node in enumerate(self.replicas):
            # A busy machine must not have one promoted before it has begun.
            node.client.config_set("cluster-replica-no-failover", "yes")
            node.ask("REPLICATE", self.masters[number % len(self.masters)].id)
        for node in nodes:
            until(lambda node=node: node.is_ready(len(nodes)))
        for node in self.replicas:
            until(node.is_in_step)
            node.client.config_set("cluster-replica-no-failover", "no")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for node in reversed(self.everybody):
            node.stop()

    def slot(self, prefix: str, partition: int) -> int:
        return int(key_slot(index_key(prefix, partition)))

    def owner(self, prefix: str, partition: int, *, asked: Node | None = None) -> Node:
        """The node that has a partition, as the first master sees it, or the one asked."""
        slot = self.slot(prefix, partition)
        for first, last, *having in (asked or self.masters[0]).ask("SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.everybody if node.port == having[0][1])
        raise LookupError(slot)

    def replica_of(self, master: Node) -> Node:
        """The one that follows a master, as itself says."""
        return next(node for node in self.everybody if node.follows() == master.port)

    def fail_over(self, replica: Node) -> None:
        """Let a replica and its master change places, as planned: nothing is lost.

        Returns when all know.

        A server gives up if the replica has not caught up in time, and is asked again.
        """
        master = next(node for node in self.everybody if node.port == replica.follows())
        known = len(self.everybody)
        until(replica.is_in_step)
        asked_at = 0.0

        def changed_places() -> bool:
            nonlocal asked_at
            if replica.follows() and time.monotonic() - asked_at > MANUAL_FAILOVER:
                asked_at = time.monotonic()
                replica.ask("FAILOVER")
            return master.follows() == replica.port and master.is_in_step()

        until(changed_places, within=2 * PATIENCE)
        until(lambda: all(node.is_ready(known) for node in self.everybody))

    def names_in(self, partition: int, count: int, partitions: int = 12) -> list[str]:
        """The first names of locks that are in a partition."""
        names = (f"lock:{number}" for number in itertools.count())
        fitting = (name for name in names if partition_of(name, partitions) == partition)
        return list(itertools.islice(fitting, count))

    def one_for_each(self, prefix: str, partitions: int = 12) -> dict[Node, str]:
        """A lock on each master, as the first one sees it."""
        found: dict[Node, str] = {}
        for each in (f"lock:{number}" for number in range(200)):
            found.setdefault(self.owner(prefix, partition_of(each, partitions)), each)
        assert len(self.masters) == len(found)
        return found

    def begin_to_move(self, slot: int, source: Node, target: Node) -> None:
        target.ask("SETSLOT", slot, "IMPORTING", source.id)
        source.ask("SETSLOT", slot, "MIGRATING", target.id)

    def carry(self, source: Node, target: Node, *keys: str) -> None:
        source.client.execute_command(
            "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys
        )

    def finish_moving(self, slot: int, source: Node, target: Node) -> None:
        while keys := source.ask("GETKEYSINSLOT", slot, 2):
            self.carry(source, target, *keys)
        others = [node for node in self.serving() if node not in {source, target}]
        for node in (target, source, *others):
            node.ask("SETSLOT", slot, "NODE", target.id)

    def move(self, slot: int, target: Node, *, pause: float = 0.0) -> None:
        """Move a slot key by key, as every server can; `pause` seconds between its steps."""
        source = self.having(slot)
        self.begin_to_move(slot, source, target)
        time.sleep(pause)
        while keys := source.ask("GETKEYSINSLOT", slot, 2):
            self.carry(source, target, *keys)
            time.sleep(pause / 10)
        self.finish_moving(slot, source, target)

    def can_move_at_once(self) -> bool:
        help_lines = self.masters[0].ask("HELP")
        return any("MIGRATESLOTS" in line for line in help_lines)

    def move_at_once(self, slot: int, target: Node) -> None:
        """Move a slot as a whole, as Valkey 9 can."""
        source = self.having(slot)
        source.ask("MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        until(lambda: all(self._sees(node, slot) == target.port for node in self.masters))

    def serving(self) -> list[Node]:
        """Those that are masters now."""
        return [node for node in self.everybody if node.follows() is None]

    def having(self, slot: int) -> Node:
        """The master that has a slot, as itself says."""
        return next(node for node in self.serving() if self._sees(node, slot) == node.port)

    def _sees(self, node: Node, slot: int) -> int:
        return next(
            having[0][1] for first, last, *having in node.ask("SLOTS") if first <= slot <= last
        )
