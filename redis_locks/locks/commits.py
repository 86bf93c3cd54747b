"""Commands for `Hold.commit`: plain ones, or those that are queued in a pipeline of redis-py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from redis_locks.connections.colocation import require_beside
from redis_locks.drivers.base import Driver
from redis_locks.drivers.resp import pack
from redis_locks.drivers.server_link import pack_words
from redis_locks.exceptions import LockBackendError, LockError, LockNotHeld
from redis_locks.locks.data_commands import checked_commands, to_bytes, words_of
from redis_locks.protocol import store
from redis_locks.protocol.lease import NOT_KNOWN, Lease
from redis_locks.protocol.retry import ask_once, persist
from redis_locks.protocol.store import Commands
from redis_locks.values.keys import Keys

if TYPE_CHECKING:
    from redis_locks.connections.cluster_pipelines import QueuedOnCluster

Queued: TypeAlias = "PlainCommands | QueuedOnCluster | QueuedOnServer"

MAX_WORDS = 7000
"""Most words of one command: what Lua can take apart at once."""


async def commit(driver: Driver, lease: Lease, hold: object, commands: Commands) -> str | None:
    """End the lease of `hold` with these commands; return the first error of one, if any, else "".

    It goes on for as long as the lease lasts. None: the lease is lost, and none was applied. Raises
    as `Hold.commit`.
    """
    begun = lease.commands
    if begun is None and not lease.commit(hold, commands):
        msg = (
            f"The end of this hold of lock {lease.name!r} has begun already, by another thread or "
            "by a release that failed; acquire the lock again"
        )
        raise LockNotHeld(msg)
    if begun is not None and begun.packed != commands.packed:
        msg = (
            f"A commit of lock {lease.name!r} was begun already, and may have been applied; commit "
            "the same commands again to be sure, or others with a new hold"
        )
        raise LockError(msg)
    try:
        reply = await ask_once(driver, lease.plan.commit(lease.token, commands), lease.token)
        if reply is None:
            failure, _ = await persist(
                driver,
                lambda link: store.commit(link, lease.keys, lease.token, commands),
                lease.deadline,
                lock=lease.name,
                within=inf,
            )
        else:
            failure = store.commit_reply(reply, lease.token)
        if failure is None and begun is not None:
            # Redis remembers a commit for a minute only.
            msg = (
                f"Lock {lease.name!r} is not held any more. Redis does not know, or has forgotten, "
                "whether the commit that was begun before was applied: look at the data"
            )
            raise LockBackendError(msg)
    except LockBackendError as error:
        error.may_be_done = True
        raise
    if failure is None:
        lease.lose(NOT_KNOWN)
    return failure


def command_failed(failure: str) -> Exception:
    """Return the error of redis-py for a command that failed."""
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis.exceptions import ResponseError

    return ResponseError(failure)


def require(queued: Queued, driver: Driver, keys: Keys) -> Awaitable[None] | None:
    """Raise unless what is queued can be sent to the node of `driver` that has a lock's `keys`.

    On a cluster, return what to await for that: its server may be asked for the keys of commands.

    Raises:
        ValueError: It belongs to another server, database or cluster, or it watches keys. Or a
            command is for another slot of the cluster than the lock.
        LockBackendError: A cluster could not be asked for a command's keys.
    """
    if queued.watches:
        msg = "pipe watches keys; the lock takes the place of WATCH, so leave watch() out"
        raise ValueError(msg)
    return queued.require(driver, keys)


def packed(queued: Queued) -> Commands:
    """Return the commands, ready to send; of a cluster's pipeline once it has passed `require`.

    Raises ValueError if one cannot be part of a script, or TypeError if a word of it can't be sent.
    """
    words: list[bytes | str] = []
    for command in commands_of(queued):
        words.append(str(len(command)))
        words += command
    try:
        return Commands(words, pack_words(tuple(words)))
    except UnicodeEncodeError as error:
        raise _no_text(error.object) from None


def commands_of(queued: Queued) -> list[list[bytes | str]]:
    """Return the commands, in words; raises as `packed`."""
    commands = []
    for name, *words in queued.arguments:
        try:
            # A bytearray, say, cannot be looked up.
            spelled = _spelled(name if type(name) is str else to_bytes(name))
            command = [*spelled, *queued.encoded(words)]
        except UnicodeEncodeError:
            raise _no_text([name, *words]) from None
        if len(command) > MAX_WORDS:
            msg = f"a command of a commit may have {MAX_WORDS} words, not {len(command)}: split it"
            raise ValueError(msg)
        commands.append(command)
    return commands


def _no_text(found: object) -> ValueError:
    return ValueError(
        f"a command of a commit must be text that its encoding has, or bytes, not {found!r}"
    )


@lru_cache(maxsize=256)
def _spelled(name: bytes | str) -> Sequence[bytes]:
    """Return the words of a command's name: redis-py writes some as one, as in "XGROUP CREATE"."""
    words = to_bytes(name).split()
    if not words:
        msg = f"a command of a commit needs a name, not {name!r}"
        raise ValueError(msg)
    command = words[0].upper()
    if command.startswith(_SCRIPTS) or command in _ELSEWHERE:
        why = (
            "which ends in the database of the lock; use a lock and a pipeline of the other one"
            if command in _ELSEWHERE
            else "which is a script itself; queue its commands instead"
        )
        msg = f"{command.decode(errors='replace')} cannot be part of a commit, {why}"
        raise ValueError(msg)
    return words


def queue_of(pipe: Any, *, in_cluster: bool) -> Queued:
    """Return the commands: plain ones, or those queued in a pipeline of redis-py or redis.asyncio.

    Raises TypeError if it is neither.
    """
    if type(pipe) is list or type(pipe) is tuple:
        return PlainCommands(pipe, in_cluster=in_cluster)
    stack, pool = getattr(pipe, "command_stack", None), getattr(pipe, "connection_pool", None)
    if stack is not None and pool is not None:
        return QueuedOnServer(pipe, stack, pool)
    if not isinstance(pipe, list | tuple):
        # Not above: redis-py is imported when a connection is, for start-up's sake.
        from redis_locks.connections.cluster_pipelines import KINDS, QueuedOnCluster

        if isinstance(pipe, KINDS):
            return QueuedOnCluster(pipe)
        if not isinstance(pipe, Iterable) or isinstance(pipe, str | bytes):
            msg = (
                "pipe must be what client.pipeline() returned, or commands such as "
                f'[("INCR", "key")], not {pipe!r}'
            )
            raise TypeError(msg)
    return PlainCommands(pipe, in_cluster=in_cluster)


class PlainCommands:
    """Commands that are given as lists or tuples of words, for the server of the lock."""

    watches = False

    def __init__(self, commands: object, *, in_cluster: bool) -> None:
        self.arguments = []
        for command in checked_commands(commands, "commit"):
            self.arguments.append(words_of(command, "commit"))
            if not isinstance(command[0], (str, bytes)):
                msg = (
                    'the name of a command in commit must be a string such as "INCR", not '
                    f"{command[0]!r}"
                )
                raise TypeError(msg)
        self._in_cluster = in_cluster

    def encoded(self, words: Sequence[Any]) -> Sequence[bytes | str]:
        """Return words as they are sent: those that are text are."""
        return words

    def require(self, driver: Driver, keys: Keys) -> Awaitable[None] | None:
        """Return what raises ValueError if a command is for another slot than the lock's `keys`.

        It raises LockBackendError if a cluster could not be asked for the keys of a command. None:
        it is no cluster.
        """
        return self._require(driver, keys) if self._in_cluster else None

    async def _require(self, driver: Driver, keys: Keys) -> None:
        try:
            commands = [[to_bytes(word) for word in command] for command in commands_of(self)]
        except UnicodeEncodeError as error:
            raise _no_text(error.object) from None
        asked = [command for command in commands if command[0].upper() not in ONE_KEY]
        questions = [pack((b"COMMAND", b"GETKEYS", *command)) for command in asked]
        replies, _ = await persist(driver, lambda link: link.read(questions, keys), 0.0)
        found = [command[1:2] for command in commands if command[0].upper() in ONE_KEY]
        for command, reply in zip(asked, replies, strict=True):
            if not isinstance(reply, list):
                name = command[0].decode(errors="replace")
                msg = (
                    f"the keys of {name} are not known, so it cannot be part of a commit on a "
                    f"cluster: {reply}"
                )
                raise ValueError(msg)  # noqa: TRY004 - the server's answer, not the caller's type
            found.append(reply)
        for key in (key for each in found for key in each):
            require_beside("commit", key, keys, "send the command by itself")

    def empty(self) -> None:
        """Leave them as they are."""


class QueuedOnServer:
    """The commands of a pipeline of a single server's client."""

    def __init__(self, pipe: Any, stack: Any, pool: Any) -> None:
        self._pipe = pipe
        self.server, self._encode = _pools.get(pool) or _known(pool)
        self.arguments = [arguments for arguments, _ in stack]
        self.watches = bool(getattr(pipe, "watching", False))

    def encoded(self, words: Sequence[Any]) -> list[bytes | str]:
        """Return words as bytes, as the client would; raises TypeError, UnicodeEncodeError."""
        return [
            bytes(self._encode(word)) for word in words
        ]  # redis-py leaves a memoryview as it is

    def require(self, driver: Driver, keys: Keys) -> None:  # noqa: ARG002 - one server has all keys
        """Raise ValueError unless it is the server of `driver`."""
        if self.server != driver.description:
            msg = (
                f"pipe belongs to {self.server}, but the lock is on {driver.description}: one step "
                "needs one server"
            )
            raise ValueError(msg)

    def empty(self) -> None:
        """Empty the pipeline."""
        self._pipe.command_stack.clear()
        self._pipe.explicit_transaction = False  # so that `multi()` may be called again


Encode = Callable[[Any], bytes]

_Known = tuple[str, Encode]

_pools: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
"""The server of each connection pool, as text for people, and what turns a word into bytes as its
clients do.
"""


def _known(pool: Any) -> _Known:
    from redis_locks.drivers.endpoint import Endpoint

    known = _pools[pool] = Endpoint.from_pool(pool).description, pool.get_encoder().encode
    return known


ONE_KEY: Final = frozenset(
    b"APPEND DECR DECRBY EXPIRE GETDEL GETSET HDEL HINCRBY HINCRBYFLOAT HSET HSETNX INCR INCRBY "
    b"INCRBYFLOAT LPUSH LREM LSET LTRIM PERSIST PEXPIRE PFADD PSETEX RPUSH SADD SET SETBIT SETEX "
    b"SETNX SETRANGE SREM XADD ZADD ZINCRBY ZREM".split()
)
"""The most common of the commands that write one key, their first word; a cluster is asked for the
keys of others.
"""

_SCRIPTS: Final = (b"EVAL", b"FCALL", b"SCRIPT")
_ELSEWHERE: Final = frozenset((b"SELECT", b"SWAPDB"))
"""Commands after which the release would look for the lock in another database."""
