"""Commands that are queued for `Hold.commit`: taken out of a redis-py pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redis_locks.drivers.base import Driver
from redis_locks.keys import Keys

if TYPE_CHECKING:
    from redis_locks.cluster_pipelines import QueuedOnCluster

Commands = list[list[bytes]]

MAX_WORDS = 7000
"""Most words of one command: what Lua can take apart at once."""


async def queued_commands(pipe: Any, driver: Driver, keys: Keys) -> Commands:
    """Return the commands queued in `pipe`, ready to be sent to the node of `driver` that has a lock's `keys`.

    Args:
        pipe: What ``client.pipeline()`` returned, of redis-py or redis.asyncio.
        driver: The lock's. A pipeline of a cluster client may ask its server for the keys of commands.
        keys: The lock's.

    Raises:
        TypeError: `pipe` is no pipeline.
        ValueError: It belongs to another server, database or cluster, watches keys, or has a command
            that cannot be part of a script, or that is for another slot of the cluster than the lock.
        LockBackendError: A cluster could not be asked for a command's keys.
    """
    queued = _queue_of(pipe)
    if queued.watches:
        msg = "pipe watches keys; the lock takes the place of WATCH, so leave watch() out"
        raise ValueError(msg)
    await queued.require(driver, keys)
    encode = queued.encode
    return [_checked([encode(word) for word in _words(each)]) for each in queued.arguments]


async def empty(pipe: Any) -> None:
    """Empty a pipeline whose commands were applied."""
    await _queue_of(pipe).empty()


def _queue_of(pipe: Any) -> QueuedOnCluster | _QueuedOnServer:
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis_locks.cluster_pipelines import KINDS, QueuedOnCluster

    return QueuedOnCluster(pipe) if isinstance(pipe, KINDS) else _QueuedOnServer(pipe)


class _QueuedOnServer:
    """The commands of a pipeline of a single server's client."""

    def __init__(self, pipe: Any) -> None:
        self._stack: Any = getattr(pipe, "command_stack", None)
        self._pool: Any = getattr(pipe, "connection_pool", None)
        if self._stack is None or self._pool is None:
            msg = f"pipe must be what client.pipeline() returned, not {pipe!r}"
            raise TypeError(msg)
        self.arguments = [arguments for arguments, _ in self._stack]
        self.watches = bool(getattr(pipe, "watching", False))
        self.encode = self._pool.get_encoder().encode

    async def require(self, driver: Driver, keys: Keys) -> None:  # noqa: ARG002 - one server has all keys
        from redis_locks.drivers.endpoint import Endpoint

        theirs = Endpoint.from_pool(self._pool).description
        if theirs != driver.description:
            msg = f"pipe belongs to {theirs}, but the lock is on {driver.description}: one step needs one server"
            raise ValueError(msg)

    async def empty(self) -> None:
        self._stack.clear()


def _words(arguments: Sequence[Any]) -> list[Any]:
    """Return the words of a command; redis-py writes some as one, such as "XGROUP CREATE"."""
    return [*str(arguments[0]).split(), *arguments[1:]]


def _checked(command: list[bytes]) -> list[bytes]:
    name = command[0].upper()
    if name.startswith((b"EVAL", b"FCALL", b"SCRIPT")):
        msg = f"{name.decode()} cannot be part of a commit, which is a script itself; queue its commands instead"
        raise ValueError(msg)
    if len(command) > MAX_WORDS:
        msg = f"a command of a commit may have {MAX_WORDS} words, not {len(command)}: split it"
        raise ValueError(msg)
    return command
