"""What is queued in a pipeline of redis-py's cluster clients.

And whether the node of a lock has its keys.

redis-py knows where a command's keys stand; the few commands whose keys move about in it (those
with a number of keys, or ``STORE``) it asks the server for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Final

from redis.asyncio.cluster import ClusterPipeline as AsyncClusterPipeline
from redis.cluster import ClusterNode, ClusterPipeline
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from redis_locks.connections.colocation import require_beside
from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import Driver
from redis_locks.drivers.cluster import ClusterDriver
from redis_locks.exceptions import LockBackendError
from redis_locks.values.keys import Keys

KINDS: Final = (ClusterPipeline, AsyncClusterPipeline)

_SILENT = (RedisConnectionError, RedisTimeoutError, OSError)


class QueuedOnCluster:
    """The commands of a pipeline of a cluster client; see `commits`."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._is_async = isinstance(pipe, AsyncClusterPipeline)
        # redis-py shows neither of them; what its own pipelines call `command_stack` stays empty
        # here.
        strategy = pipe._execution_strategy  # noqa: SLF001 - no public way
        queued = strategy._command_queue  # noqa: SLF001 - as above
        self.arguments: list[Sequence[Any]] = [each.args for each in queued]
        self.watches = bool(getattr(strategy, "_watching", False))
        self.encode: Any = None
        """Turns a word into bytes, as the client would; known once `require` has passed."""

    def encoded(self, words: Sequence[Any]) -> list[bytes | str]:
        """Return words as bytes, as the client would; raises TypeError, UnicodeEncodeError."""
        return [bytes(self.encode(word)) for word in words]  # redis-py leaves a memoryview as it is

    async def require(self, driver: Driver, keys: Keys) -> None:
        """Raise unless the commands' keys are in one slot with a lock's `keys`.

        The cluster is that of `driver`.

        Raises:
            ValueError: A key is elsewhere; a command has none, or redis-py does not know it.
            LockBackendError: Redis could not be asked for the keys of a command.
        """
        if not isinstance(driver, ClusterDriver):
            raise ValueError(  # noqa: TRY004 - of the right type, but of the wrong server
                f"pipe belongs to a cluster, but the lock is on {driver.description}: one step "
                "needs one server"
            )
        if self._is_async and not driver.suspends:
            raise ValueError("pipe belongs to a client of redis.asyncio: await hold.acommit(pipe)")
        try:
            await self._require(driver, keys)
        except _SILENT as error:
            raise LockBackendError(
                f"{driver.description} cannot be asked for the keys of the commands: {error}. "
                "Nothing was applied"
            ) from error

    async def _require(self, driver: ClusterDriver, keys: Keys) -> None:
        if self._is_async:
            await self._pipe.cluster_client.initialize()
            self.encode = self._pipe.cluster_client.get_encoder().encode
        else:
            pool = self._pipe.get_default_node().redis_connection.connection_pool
            self.encode = pool.get_encoder().encode
        self._require_same_cluster(driver)
        for arguments in self.arguments:
            for key in await self._keys_of(arguments):
                require_beside("commit(pipe)", self.encode(key), keys, "execute pipe by itself")

    def _require_same_cluster(self, driver: ClusterDriver) -> None:
        manager = self._pipe.nodes_manager
        nodes = [*manager.startup_nodes.values(), *manager.nodes_cache.values()]
        theirs = {(node.host, int(node.port)) for node in nodes}
        if theirs.isdisjoint(_as_redis_py_has_them(driver.nodes.slots.nodes())):
            named = ", ".join(f"{host}:{port}" for host, port in sorted(theirs))
            raise ValueError(
                f"pipe belongs to the cluster of {named}, but the lock is on {driver.description}: "
                "one step needs one server"
            )

    async def _keys_of(self, arguments: Sequence[Any]) -> Sequence[Any]:
        try:
            if self._is_async:
                keys = await self._pipe.cluster_client.commands_parser.get_keys(*arguments)
            else:
                client = self._pipe.get_default_node().redis_connection
                keys = self._pipe.commands_parser.get_keys(client, *arguments)
        except _SILENT:
            raise
        except (RedisError, IndexError) as error:
            raise ValueError(
                f"redis-py cannot tell the keys of {arguments[0]}, a command queued for "
                f"commit(pipe): {error}"
            ) from error
        if not keys:
            raise ValueError(
                f"{arguments[0]} has no key that says which node it is for; on a cluster "
                "commit(pipe) takes only commands with keys in the lock's slot"
            )
        return list(keys)

    def empty(self) -> Awaitable[None] | None:
        """Empty the pipeline, or return what does."""
        answer = self._pipe.reset()
        return answer if isawaitable(answer) else None


def _as_redis_py_has_them(addresses: Iterable[Address]) -> set[Address]:
    """Return the addresses as redis-py spells them, for which localhost is 127.0.0.1."""
    nodes: list[Any] = [ClusterNode(host, port) for host, port in addresses]  # type: ignore[no-untyped-call]
    return {(node.host, node.port) for node in nodes}
