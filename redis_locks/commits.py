"""Commands that are queued for `Hold.commit`: taken out of a redis-py pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from redis_locks.drivers.base import Driver
from redis_locks.keys import Keys

if TYPE_CHECKING:
    from redis_locks.cluster_pipelines import QueuedOnCluster

Commands = list[list[bytes]]

MAX_WORDS = 7000
"""Most words of one command: what Lua can take apart at once."""


async def commands_of(
    queued: QueuedOnCluster | _QueuedOnServer, driver: Driver, keys: Keys
) -> Commands:
    """Return the commands of a pipeline, ready to be sent to the node of `driver` that has a lock's `keys`.

    Args:
        queued: From `queue_of`.
        driver: The lock's. A pipeline of a cluster client may ask its server for the keys of commands.
        keys: The lock's.

    Raises:
        ValueError: It belongs to another server, database or cluster, watches keys, or has a command
            that cannot be part of a script, or that is for another slot of the cluster than the lock.
        LockBackendError: A cluster could not be asked for a command's keys.
    """
    if queued.watches:
        msg = "pipe watches keys; the lock takes the place of WATCH, so leave watch() out"
        raise ValueError(msg)
    await queued.require(driver, keys)
    encode, codec = queued.encode, queued.codec
    commands: Commands = []
    # In one function, as each word of redis-py's takes one more.
    for name, *words in queued.arguments:
        command: list[bytes] = []
        # redis-py writes some names as one word, such as "XGROUP CREATE".
        for word in (*str(name).split(), *words):
            if codec and type(word) is str:
                command.append(word.encode(*codec))
            elif codec and type(word) is int:
                command.append(b"%d" % word)
            else:
                command.append(encode(word))
        if command[0].upper().startswith(_SCRIPTS) or len(command) > MAX_WORDS:
            raise _refusal(command)
        commands.append(command)
    return commands


def queue_of(pipe: Any) -> QueuedOnCluster | _QueuedOnServer:
    """Return what is queued in what ``client.pipeline()`` returned, of redis-py or redis.asyncio.

    Raises TypeError if that is no pipeline.
    """
    stack, pool = getattr(pipe, "command_stack", None), getattr(pipe, "connection_pool", None)
    if stack is not None and pool is not None:
        return _QueuedOnServer(pipe, stack, pool)
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis_locks.cluster_pipelines import KINDS, QueuedOnCluster

    if isinstance(pipe, KINDS):
        return QueuedOnCluster(pipe)
    msg = f"pipe must be what client.pipeline() returned, not {pipe!r}"
    raise TypeError(msg)


class _QueuedOnServer:
    """The commands of a pipeline of a single server's client."""

    def __init__(self, pipe: Any, stack: Any, pool: Any) -> None:
        self._stack = stack
        self._server, self.encode, self.codec = _pools.get(pool) or _known(pool)
        self.arguments = [arguments for arguments, _ in stack]
        self.watches = bool(getattr(pipe, "watching", False))

    async def require(self, driver: Driver, keys: Keys) -> None:  # noqa: ARG002 - one server has all keys
        if self._server != driver.description:
            msg = f"pipe belongs to {self._server}, but the lock is on {driver.description}: one step needs one server"
            raise ValueError(msg)

    async def empty(self) -> None:
        self._stack.clear()


_Known = tuple[str, Callable[[Any], bytes], tuple[str, str] | None]

_pools: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
"""The server of each connection pool, as text for people; what turns a word into bytes as its clients do; and
what `str.encode` takes to do the same, if that does."""


def _known(pool: Any) -> _Known:
    from redis._parsers import Encoder

    from redis_locks.drivers.endpoint import Endpoint

    encoder = pool.get_encoder()
    codec = (encoder.encoding, encoder.encoding_errors) if type(encoder) is Encoder else None
    known = _pools[pool] = Endpoint.from_pool(pool).description, encoder.encode, codec
    return known


_SCRIPTS: Final = (b"EVAL", b"FCALL", b"SCRIPT")


def _refusal(command: list[bytes]) -> ValueError:
    if len(command) > MAX_WORDS:
        return ValueError(
            f"a command of a commit may have {MAX_WORDS} words, not {len(command)}: split it"
        )
    name = command[0].decode().upper()
    return ValueError(
        f"{name} cannot be part of a commit, which is a script itself; queue its commands instead"
    )
