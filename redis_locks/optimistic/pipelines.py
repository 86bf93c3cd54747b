"""Pipelines that refuse mistakes, each of which would silently remove the protection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline
from redis.commands import READ_COMMANDS
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError, WatchError
from redis.exceptions import TimeoutError as RedisTimeoutError

# Read-only commands that redis-py does not list; SCRIPT is its own, before it runs a script.
_HARMLESS = READ_COMMANDS | {
    "ECHO", "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "MEMORY", "OBJECT", "PING", "SCRIPT", "SORT_RO",
    "SUBSTR", "TIME", "UNWATCH", "WATCH", "XINFO",
}  # fmt: skip


BROKEN = (RedisConnectionError, RedisTimeoutError, OSError)
"""What redis-py raises if there is no connection, or no answer."""


class Conflict(WatchError):
    """EXEC was answered: a watched key had changed, nothing was applied."""


class LinkFailed(RedisConnectionError):
    """The pipeline's connection failed; if EXEC was sent, it may be applied or not."""


def _told_apart(error: Exception) -> Exception:
    """Return the error to raise: redis-py raises WatchError for a conflict and for a lost connection."""
    cause = error.__context__ if isinstance(error, WatchError) else error
    if isinstance(cause, BROKEN):
        return LinkFailed(str(cause))
    return Conflict(str(error))


def _require_reading(name: object) -> None:
    command = str(name).upper()
    if command not in _HARMLESS and command.partition(" ")[0] not in _HARMLESS:
        msg = (
            f"{command} before pipe.multi() would be applied at once, unprotected, and again in "
            "each attempt: call pipe.multi() first. (Should it only read: send it through "
            "another client; what is watched is protected all the same.)"
        )
        raise RuntimeError(msg)


Words = Sequence[bytes | str]


def _name_of(command: Words) -> str:
    name = command[0]
    return (name.decode() if isinstance(name, bytes) else name).upper()


class _Guard:
    read: list[Any]
    """The replies to the commands that travelled with the WATCH: those of ``read=``."""

    in_flight = False
    """Whether a command was interrupted. Its reply may still arrive, so the connection must be closed."""

    def execute(self, *args: Any, **options: Any) -> Any:
        """Refuse: the operation would be applied without being remembered."""
        del args, options
        msg = "do not call pipe.execute() here: it is done after your function has returned"
        raise RuntimeError(msg)

    def __enter__(self) -> NoReturn:
        """Refuse: the end of the block would drop what was queued."""
        msg = (
            "do not write `with pipe:` here: queue the commands, and they are applied after your "
            "function has returned"
        )
        raise RuntimeError(msg)

    __aenter__ = __enter__


class WatchingPipeline(_Guard, Pipeline):
    """The blocking pipeline that a function gets."""

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command at once, as all commands before MULTI; only reading commands are allowed."""
        _require_reading(args[0])
        return self._tracked(
            lambda: Pipeline.immediate_execute_command(self, *args, **options)  # type: ignore[no-untyped-call]
        )

    def begin(self, keys: Sequence[str], commands: Sequence[Words]) -> Any:
        """Watch the keys, and send the commands in the same packet; return their replies and errors."""
        return self._tracked(lambda: self._begin([("WATCH", *keys), *commands]))

    def commit(self) -> Any:
        """Send MULTI, what was queued, and EXEC."""
        return self._tracked(lambda: Pipeline.execute(self))

    def reset(self) -> None:  # type: ignore[override]  # redis-py's own hides a command RESET
        """Give the connection back, closed if it cannot be used any more."""
        if self.in_flight and self.watching and self.connection is not None:
            self.watching = False  # so that it does not connect again for an UNWATCH
            self.connection.disconnect()  # type: ignore[no-untyped-call]
        super().reset()

    def _begin(self, commands: Sequence[Words]) -> list[Any]:
        self.connection = connection = self.connection_pool.get_connection()
        self.watching = True  # so that an interrupted exchange closes the connection
        connection.send_packed_command(connection.pack_commands(commands))  # type: ignore[no-untyped-call]
        replies: list[Any] = []
        for command in commands:
            try:
                replies.append(self.parse_response(connection, _name_of(command)))  # type: ignore[no-untyped-call]
            except ResponseError as error:
                replies.append(error)
        return _after_watch(replies)

    def _tracked(self, exchange: Callable[[], Any]) -> Any:
        self.in_flight = True
        try:
            answer = exchange()
        except ResponseError:
            self.in_flight = False
            raise
        except (WatchError, *BROKEN) as error:
            raise _told_apart(error) from error
        self.in_flight = False
        return answer


class AsyncWatchingPipeline(_Guard, AsyncPipeline):  # type: ignore[misc]  # so is AsyncPipeline
    """The asyncio pipeline that a coroutine function gets."""

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command at once; see `WatchingPipeline`."""
        _require_reading(args[0])
        answer = super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]
        return await self._tracked(answer)

    async def begin(self, keys: Sequence[str], commands: Sequence[Words]) -> Any:
        """Watch the keys, and send the commands in the same packet; see `WatchingPipeline`."""
        return await self._tracked(self._begin([("WATCH", *keys), *commands]))

    async def commit(self) -> Any:
        """Send MULTI, what was queued, and EXEC."""
        return await self._tracked(AsyncPipeline.execute(self))

    async def reset(self) -> None:  # type: ignore[override]
        """Give the connection back; see `WatchingPipeline`."""
        if self.in_flight and self.watching and self.connection is not None:
            self.watching = False
            await self.connection.disconnect(nowait=True)
        await super().reset()  # type: ignore[no-untyped-call]

    async def _begin(self, commands: Sequence[Words]) -> list[Any]:
        self.connection = connection = await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        self.watching = True
        await connection.send_packed_command(connection.pack_commands(commands))
        replies: list[Any] = []
        for command in commands:
            try:
                replies.append(await self.parse_response(connection, _name_of(command)))
            except ResponseError as error:
                replies.append(error)
        return _after_watch(replies)

    async def _tracked(self, exchange: Awaitable[Any]) -> Any:
        self.in_flight = True
        try:
            answer = await exchange
        except ResponseError:
            self.in_flight = False
            raise
        except (WatchError, *BROKEN) as error:
            raise _told_apart(error) from error
        self.in_flight = False
        return answer


def _after_watch(replies: list[Any]) -> list[Any]:
    watched, *others = replies
    if isinstance(watched, ResponseError):
        raise watched
    return others


def replies_of(answers: list[Any]) -> list[Any]:
    """Return the replies to commands; raise the first error among them."""
    for answer in answers:
        if isinstance(answer, ResponseError):
            raise answer
    return answers


def require_protection(pipe: Pipeline | AsyncPipeline) -> None:
    """Refuse to write queued commands if no key is watched any more.

    Raises:
        RuntimeError: The function called ``unwatch()``, but queued commands.
    """
    if len(pipe) and not (pipe.explicit_transaction and pipe.watching):
        msg = (
            "commands were queued after pipe.unwatch(), or after the connection had failed, so "
            "nothing protects them: return without writing, or let the error pass"
        )
        raise RuntimeError(msg)
